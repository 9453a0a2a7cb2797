// Tells whether the server of this container is alive: exits with 0 if it answers. Without a shell or curl.
const url = `http://127.0.0.1:${process.env["PORT"] ?? 4040}/healthz`;
const isAlive = await fetch(url, { signal: AbortSignal.timeout(2_000) }).then(
  ({ ok }) => ok,
  () => false,
);
process.exit(isAlive ? 0 : 1);
