"""A server without requests."""

from http.server import HTTPServer, SimpleHTTPRequestHandler

server = HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
print("ready", flush=True)
server.serve_forever()
