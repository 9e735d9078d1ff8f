"""Where things lie in CPython 3.11 on a 64-bit machine.

Secret: the numbers, in bytes from the beginning of each structure; compared by a test with the
interpreter it runs on. Source: Include/internal/pycore_{runtime,interp,frame,dict}.h, cpython/*.h
of 3.11; Modules/_asynciomodule.c, _threadmodule.c, _queuemodule.c, _multiprocessing/semaphore.c.
"""

from __future__ import annotations

# What `Py_Version >> 16` says.
SUPPORTED = 0x030B

# _PyRuntimeState, PyInterpreterState
RUNTIME_INTERPRETER = 48
INTERPRETER_THREADS = 16
INTERPRETER_RUNTIME = 40
INTERPRETER_MODULES = 888
# The heads of the lists of tracked objects: three generations and the permanent one.
INTERPRETER_GENERATIONS = (672, 696, 720, 752)
GC_HEAD_BYTES = 16

# PyThreadState, _PyCFrame
THREAD_NEXT = 8
THREAD_INTERPRETER = 16
THREAD_CFRAME = 56
THREAD_IDENT = 152
THREAD_NATIVE = 160
CFRAME_FRAME = 8

# _PyInterpreterFrame
FRAME_GLOBALS = 8
FRAME_LOCALS = 24
FRAME_CODE = 32
FRAME_PREVIOUS = 48
FRAME_INSTRUCTION = 56
FRAME_STACKTOP = 64
FRAME_SLOTS = 72

# PyCodeObject
CODE_SIZE = 16
CODE_NAMES = 32
CODE_EXCEPTIONS = 40
CODE_FLAGS = 48
CODE_STACK = 68
CODE_FIRST_LINE = 72
CODE_SLOTS = 76
CODE_SLOT_NAMES = 96
CODE_SLOT_KINDS = 104
CODE_FILE = 112
CODE_NAME = 120
CODE_QUALNAME = 128
CODE_LINES = 136
CODE_BYTES = 184
# Kinds of slots: a cell or a free variable holds its value one step further.
KIND_CELL, KIND_FREE = 0x40, 0x80

# PyGenObject, PyCoroObject, PyAsyncGenObject
GENERATOR_STATE = 75
GENERATOR_FRAME = 80
STATE_CREATED, STATE_SUSPENDED, STATE_EXECUTING = -2, -1, 0

# PyObject, PyTypeObject, PyHeapTypeObject
OBJECT_TYPE = 8
OBJECT_SIZE = 16
TYPE_NAME = 24
TYPE_BASIC_BYTES = 32
TYPE_ITEM_BYTES = 40
TYPE_FLAGS = 168
TYPE_DICT = 264
TYPE_DICT_OFFSET = 288
TYPE_MRO = 344
TYPE_SUBCLASSES = 360
TYPE_QUALNAME = 864
TYPE_SHARED_KEYS = 872
FLAG_MANAGED_DICT = 1 << 4
FLAG_HEAP_TYPE = 1 << 9
FLAG_COLLECTED = 1 << 14
FLAG_LONG = 1 << 24
FLAG_LIST = 1 << 25
FLAG_TUPLE = 1 << 26
FLAG_BYTES = 1 << 27
FLAG_TEXT = 1 << 28
FLAG_DICT = 1 << 29
FLAG_TYPE = 1 << 31
# An instance keeps its values, or its dict, this far before itself.
INLINE_VALUES = -32
MANAGED_DICT = -24

# PyDictObject, its keys
DICT_USED = 16
DICT_KEYS = 32
DICT_VALUES = 40
KEYS_LOG2_INDEX_BYTES = 9
KEYS_KIND = 10
KEYS_ENTRIES = 24
KEYS_INDEX = 32
KIND_GENERAL = 0

# The other containers
LIST_ITEMS = 24
TUPLE_ITEMS = 24
SET_USED = 24
SET_MASK = 32
SET_TABLE = 40
DEQUE_LEFT = 24
DEQUE_LEFT_INDEX = 40
DEQUE_BLOCK_ITEMS = 64
LONG_DIGITS = 24
LONG_SHIFT = 30
BYTES_START = 32
FLOAT_VALUE = 16
# arraydescr: the letter, then the size of an item
ARRAY_ITEM_BYTES = 4
TEXT_LENGTH = 16
TEXT_STATE = 32
TEXT_ASCII_START = 48
TEXT_START = 72

# Callables and references
METHOD_FUNCTION = 16
METHOD_SELF = 24
BUILTIN_DEFINITION = 16
BUILTIN_SELF = 24
DESCRIPTOR_NAME = 24
DESCRIPTOR_MEMBER = 40
MEMBER_OFFSET = 16
FUNCTION_CODE = 48
FUNCTION_DEFAULTS = 56
FUNCTION_CLOSURE = 72
PARTIAL_FUNCTION = 16
PARTIAL_ARGUMENTS = 24
WEAKREF_OBJECT = 16
CELL_VALUE = 16
MODULE_DICT = 16

# _thread.lock, _thread.RLock, _queue.SimpleQueue: their sem_t; _multiprocessing.SemLock
LOCK_SEMAPHORE = 16
LOCK_LOCKED = 32
RLOCK_OWNER = 24
RLOCK_COUNT = 32
SIMPLE_QUEUE_ITEMS = 32
SEMLOCK_HANDLE = 16
SEMLOCK_IDENT = 24
SEMLOCK_COUNT = 32
SEMLOCK_MOST = 36

# _asyncio.Future, _asyncio.Task and what awaits them
FUTURE_BYTES = 128
TASK_BYTES = 176
FUTURE_LOOP = 16
FUTURE_CALLBACK = 24
FUTURE_CALLBACKS = 40
FUTURE_STATE = 88
TASK_WAITER = 128
TASK_COROUTINE = 136
TASK_NAME = 144
# coroutine_wrapper, async_generator_asend, _asyncio.FutureIter
WRAPPED = 16
PENDING, DONE = 0, 2
