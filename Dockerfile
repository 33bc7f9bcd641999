# A server for one predictor: docker build -t sets . && docker run -p 127.0.0.1:8000:8000 -v ./files:/files:ro sets
# In /files: predictor.json and token, a file with an access token. Options of `fedconformal serve` go after the image's
# name; deploy/compose.yaml adds a model, a watch and Prometheus. The tests run the RUN lines below that begin with pip,
# in an empty environment; the image itself is not built by them. requirements-serve.txt has the hash of
# every file (`make lock` renews it). To pin the base image by its content too, append the digest that
# `docker buildx imagetools inspect python:3.12.13-slim-bookworm` prints: FROM python:3.12.13-slim-bookworm@sha256:...
FROM python:3.12.13-slim-bookworm
WORKDIR /app
COPY pyproject.toml README.md LICENSE requirements-serve.txt ./
RUN pip install --no-cache-dir --require-hashes --requirement requirements-serve.txt
COPY src ./src
RUN pip install --no-cache-dir --no-deps --no-build-isolation .
RUN useradd --create-home server && install --directory --owner server /watch
USER server
VOLUME /watch
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/ready', timeout=3)"]
ENTRYPOINT ["fedconformal", "serve", "/files/predictor.json", "--host", "0.0.0.0", "--token-file", "/files/token"]
CMD []
