"""DIAGNOSIS none.idle (control): an asyncio server without traffic; serve_forever in epoll with no
timer.
"""

import asyncio

from _stage import ready


async def handle(r, w):
    w.write(await r.readline())
    w.close()


async def main():
    s = await asyncio.start_server(handle, "127.0.0.1", 0)
    ready()
    await s.serve_forever()


asyncio.run(main())
