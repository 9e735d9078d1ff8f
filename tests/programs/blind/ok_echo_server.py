"""DIAGNOSIS none.idle (control): a ThreadingTCPServer that nobody calls (serve_forever with its 0.5
s poll).
"""

import socketserver
import threading

from _stage import ready


class H(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.readline())


s = socketserver.ThreadingTCPServer(("127.0.0.1", 0), H)
t = threading.Thread(target=s.serve_forever, name="server")
t.start()
ready()
t.join()
