"""DIAGNOSIS none.idle (control): a healthy selectors echo server without clients; wakes every 0.5 s
to look for housekeeping.
"""

import selectors
import socket

from _stage import ready

sel = selectors.DefaultSelector()
srv = socket.create_server(("127.0.0.1", 0))
srv.setblocking(False)
sel.register(srv, selectors.EVENT_READ, None)
ready()
while True:
    for key, _ in sel.select(timeout=0.5):
        if key.data is None:
            c, _ = srv.accept()
            sel.register(c, selectors.EVENT_READ, "client")
        else:
            data = key.fileobj.recv(1000)
            if data:
                key.fileobj.sendall(data)
            else:
                sel.unregister(key.fileobj)
                key.fileobj.close()
