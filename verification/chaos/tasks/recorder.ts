/**
 * What the tasks of the chaos test write to: one register per task, independent of our databases and
 * processes, kept twice. The fenced one refuses a token smaller than the largest it has seen. The
 * other takes whatever comes, as a resource without a fence would: it must be seen to suffer.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

export interface Write {
  readonly task: string;
  readonly token: number;
  readonly holder: string;
  readonly step: number;
}
/** A register and all that came to it, in the order in which it came. */
interface Register {
  fencedToken: number;
  readonly accepted: Write[];
  readonly refused: Write[];
  /** Whose write the unfenced register shows. */
  unfencedToken: number;
  /** Writes that replaced a newer holder's in the unfenced register. */
  violations: number;
}

export interface Recorder {
  readonly url: string;
  readonly registers: ReadonlyMap<string, Register>;
  /** Holders who were refused by the fence and yet trusted their lease: never. */
  readonly breaches: readonly Write[];
  close(): Promise<void>;
}

export async function startRecorder(): Promise<Recorder> {
  const registers = new Map<string, Register>();
  const breaches: Write[] = [];

  const write = (request: Write): boolean => {
    const { task, token } = request;
    const register = registers.get(task) ?? {
      fencedToken: 0,
      accepted: [],
      refused: [],
      unfencedToken: 0,
      violations: 0,
    };
    registers.set(task, register);
    if (token < register.unfencedToken) register.violations += 1;
    register.unfencedToken = token;
    const accepted = token >= register.fencedToken;
    if (accepted) register.fencedToken = token;
    register[accepted ? "accepted" : "refused"].push(request);
    return accepted;
  };

  // A paused writer must find its connection as it left it.
  const server = createServer({ keepAliveTimeout: 60_000 }, async (incoming, outgoing) => {
    try {
      const request = (await json(incoming)) as Write;
      if (incoming.url === "/breaches") breaches.push(request);
      const accepted = incoming.url === "/writes" && write(request);
      outgoing.end(JSON.stringify({ accepted }));
    } catch {
      // Killed while it wrote.
      incoming.destroy();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    registers,
    breaches,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
