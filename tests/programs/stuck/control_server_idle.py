"""DIAGNOSIS none.idle: healthy; a server waits for somebody to connect."""

import socketserver

from _stage import ready


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(self.rfile.readline())


with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
    ready()
    server.serve_forever()
