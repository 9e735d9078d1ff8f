# A node, or any other command of the product. The app comes with a volume or a layer on top, see
# docs/deployment.md. `docker run` needs --init (compose says `init: true`): tasks leave orphans.

FROM python:3.11.15-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# What changes seldom comes first: an edit of the source does not fetch the packages again.
COPY deploy/requirements.lock deploy/build-requirements.lock deploy/
# The environment has no pip of its own. Wheels only: nothing is compiled, no compiler is needed.
RUN python -m venv --without-pip /opt/task-supervisor \
    && python -m pip --python /opt/task-supervisor/bin/python install \
        --require-hashes --only-binary=:all: --requirement deploy/requirements.lock \
    && python -m pip install \
        --require-hashes --only-binary=:all: --requirement deploy/build-requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY autopsy autopsy
COPY supervisor supervisor
RUN python -m pip wheel --no-index --no-deps --no-build-isolation --wheel-dir dist . \
    && python -m pip --python /opt/task-supervisor/bin/python install \
        --no-index --no-deps dist/*.whl

FROM python:3.11.15-slim-bookworm
# The directories belong to the user, so that new volumes there do as well.
RUN groupadd --gid 10001 tasks \
    && useradd --uid 10001 --gid tasks --no-create-home --home-dir /var/lib/task-supervisor \
        --shell /usr/sbin/nologin tasks \
    && install --directory --owner=tasks --group=tasks --mode=0750 \
        /var/lib/task-supervisor /var/lib/task-supervisor/autopsies
COPY --from=build /opt/task-supervisor /opt/task-supervisor
ENV PATH=/opt/task-supervisor/bin:$PATH \
    HOME=/var/lib/task-supervisor \
    XDG_STATE_HOME=/var/lib \
    PYTHONDONTWRITEBYTECODE=1 \
    SUPERVISOR_METRICS_LISTEN=0.0.0.0:9464
WORKDIR /app
EXPOSE 9464
STOPSIGNAL SIGTERM
# Fails only when the node's loop stands still; see docs/operations.md on what it does not fail for.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:9464/healthz', timeout=4)"]
USER 10001:10001
CMD ["supervisor", "--help"]
