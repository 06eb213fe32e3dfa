# The worker and every other command of Almanac. Your handlers come from a volume at /app, or from an image built on this one.
FROM python:3.13-slim-trixie AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /source
COPY requirements/dev.txt requirements/
# The locked versions, of what the package itself asks for only.
RUN sed -n 's/^\([a-z0-9].*==.*\) \\$/\1/p' requirements/dev.txt > constraints.txt
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY adapter adapter
COPY temporal_workflows temporal_workflows
COPY migrations migrations
RUN python -m venv /opt/almanac && /opt/almanac/bin/pip install --constraint constraints.txt .

FROM python:3.13-slim-trixie
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin almanac
COPY --from=build /opt/almanac /opt/almanac
ENV PATH=/opt/almanac/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
USER 10001:10001
ENTRYPOINT ["almanac"]
CMD ["worker"]
