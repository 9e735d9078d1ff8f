"""DIAGNOSIS none.progressing|none.idle (control): http.server with a client process that fetches a
page every 50 ms.
"""

import http.server
import sys
import time
import urllib.request

from _role import play, role
from _stage import ready


class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"".join(b"%d," % (i * i) for i in range(3000))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *a):
        pass


if role():
    while True:
        urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[2]}/").read()
        time.sleep(0.05)
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
play("client", str(s.server_address[1]))
ready()
s.serve_forever()
