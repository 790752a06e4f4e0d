# `nearhead serve` in a container: the static binary and nothing else. docs/install.md has the commands to run it with.
#
# The first stage builds; the last one has only what it made, so it needs no distribution and has nothing to update but Nearhead. What the
# kernel is to have (`attach`, `mount`) does not belong here: docs/install.md says why.

FROM rust:1-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends musl-tools python3
WORKDIR /source
COPY . .
RUN make static
# Folders that the last stage has no program to make: for volumes, sockets, and temporary files.
RUN mkdir -p target/static/volumes target/static/run/nearhead target/static/tmp

FROM scratch
LABEL org.opencontainers.image.title="nearhead" \
      org.opencontainers.image.description="Small durable writes stay fast, bulk I/O keeps the disk's bandwidth" \
      org.opencontainers.image.licenses="Apache-2.0 OR MIT"
# Nobody's number: what it is to serve must be this user's, or `docker run --user` says another one.
COPY --from=build --chown=65532:65532 /source/target/static/ /
USER 65532:65532
# Control sockets, where `status` looks, and NBD sockets that other containers or the host are to reach.
ENV RUNTIME_DIRECTORY=/run/nearhead
VOLUME ["/volumes", "/run/nearhead"]
EXPOSE 10809
# Well: 0. It has failed, or is degraded: 2. Nobody answers: 1.
HEALTHCHECK --interval=30s --timeout=10s CMD ["/nearhead", "status"]
ENTRYPOINT ["/nearhead"]
CMD ["serve", "--config", "/etc/nearhead/volume.toml"]
