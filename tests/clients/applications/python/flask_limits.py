"""Flask-Limiter: requests beyond the limit are refused, by each of its strategies."""

import sys
import time

from flask import Flask
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address

URL = f"redis://127.0.0.1:{sys.argv[1]}/1"


def requests_beyond_the_limit_are_refused(strategy):
    app = Flask(strategy)
    limiter = Limiter(get_remote_address, app=app, storage_uri=URL, strategy=strategy, headers_enabled=True,
                      key_prefix=strategy)

    @app.route("/limited")
    @limiter.limit("5 per 3 seconds")
    def limited():
        return "served"

    @app.route("/shared")
    @limiter.limit("3/hour;2/minute", key_func=lambda: "everyone")
    def shared():
        return "served"

    client = app.test_client()
    # A fixed window may end at any moment: the first requests wait for the start of one.
    time.sleep(3 - time.time() % 3)
    answers = [client.get("/limited") for _ in range(7)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
    assert [int(answer.headers["X-RateLimit-Remaining"]) for answer in answers] == [4, 3, 2, 1, 0, 0, 0]
    other = client.get("/limited", environ_base={"REMOTE_ADDR": "10.0.0.1"})
    assert other.status_code == 200
    assert [client.get("/shared").status_code for _ in range(3)] == [200, 200, 429]
    # The counter of a sliding window keeps a part of the window before.
    time.sleep(6.1 if strategy == "sliding-window-counter" else 3.1)
    assert client.get("/limited").status_code == 200
    limiter.reset()
    assert client.get("/shared").status_code == 200


if __name__ == "__main__":
    for strategy in ("moving-window", "fixed-window", "sliding-window-counter"):
        requests_beyond_the_limit_are_refused(strategy)
        print(f"ok: Flask-Limiter refuses by its {strategy}", flush=True)
