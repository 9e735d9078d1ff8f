"""DIAGNOSIS blocked.polling: asks a REST server for the state of a job four times a second; it is
`pending` for ever.
"""

import http.server
import json
import subprocess
import time
import urllib.request

from _role import play, role
from _stage import ready


class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"state": "pending"}')

    def log_message(self, *a):
        pass


if role() == "api":
    s = http.server.HTTPServer(("127.0.0.1", 0), H)
    print(s.server_address[1], flush=True)
    s.serve_forever()
p = play("api", stdout=subprocess.PIPE, text=True)
url = f"http://127.0.0.1:{int(p.stdout.readline())}/jobs/17"


def wait_for_job():
    while json.load(urllib.request.urlopen(url, timeout=5))["state"] == "pending":
        time.sleep(0.25)


ready()
wait_for_job()
