# NOT RUN where it was written: there was no Docker engine at hand. It was linted, and nothing more.
#
#   docker build --tag smoothcert .
#   docker build --tag smoothcert --build-arg TORCH_INDEX=URL .
#
# On Linux the ordinary index gives a torch that brings gigabytes of GPU libraries along. TORCH_INDEX names the package
# index of PyTorch's builds for the CPU, which its own installation page gives; torch alone is taken from there.
# Versions are those of constraints.txt either way.

FROM python:3.11-slim AS build
ARG TORCH_INDEX=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/smoothcert
ENV PATH=/opt/smoothcert/bin:$PATH
WORKDIR /source
COPY constraints.txt ./
RUN if [ -n "$TORCH_INDEX" ]; then \
        pip install --constraint constraints.txt --no-deps --index-url "$TORCH_INDEX" torch; \
    fi
COPY pyproject.toml README.md LICENSE ./
COPY smoothcert smoothcert
RUN pip install --constraint constraints.txt ".[server]"

FROM python:3.11-slim
RUN useradd --uid 10001 --home-dir /var/lib/smoothcert --create-home --shell /usr/sbin/nologin smoothcert
COPY --from=build /opt/smoothcert /opt/smoothcert
# What can be computed again goes beside the state; everything else of the image may be read-only.
ENV PATH=/opt/smoothcert/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 MPLCONFIGDIR=/tmp \
    SMOOTHCERT_CACHE=/var/lib/smoothcert/cache
USER 10001
WORKDIR /var/lib/smoothcert
VOLUME /var/lib/smoothcert
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=180s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/v2/health/live', timeout=4)"]
ENTRYPOINT ["smoothcert"]
# Beyond the loopback address a service wants keys: mount a file of them (smoothcert keys add NAME --scope …) there.
CMD ["serve", "cifar10-resnet8-consistency", "--sigma", "0.25", "--host", "0.0.0.0", "--port", "8080", \
     "--keys", "/run/secrets/keys.toml", "--state", "/var/lib/smoothcert"]
