import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/** Below those that the system gives to clients: a restarted server would find its port taken by another test's connection. */
const PORTS = { first: 15_000, count: 17_768 };
/** More than the runner has workers. Each takes ports of its own, as a port is free until its server listens. */
const PARTS = 8;

/** Ports of one part, each once before any comes again. */
function* portsOfPart(part: number): Generator<number, never> {
  const size = Math.floor(PORTS.count / PARTS);
  const first = PORTS.first + part * size;
  for (let at = randomInt(size); ; at = (at + 1) % size) yield first + at;
}

const ports = portsOfPart(Number(process.env["VITEST_POOL_ID"] ?? 0) % PARTS);

/** A port of 127.0.0.1 that no server listens on. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = ports.next().value;
    const server = createServer();
    try {
      await once(server.listen(port, "127.0.0.1"), "listening");
    } catch {
      continue;
    }
    await once(server.close(), "close");
    return port;
  }
}
