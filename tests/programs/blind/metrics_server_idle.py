"""DIAGNOSIS none.idle (control): a healthy ThreadingHTTPServer with nobody connected;
serve_forever() polls twice a second.
"""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from _stage import ready


class Metrics(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"up 1\n")


srv = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
ready()
srv.serve_forever()
