/**
 * Receives the reports of all holders, each over a connection that no fault touches, and keeps the
 * registers that they write to. It is one process with one clock, so all reports have one order.
 */
import { createServer, type Server, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { nowMs } from "./clock.js";
import { Journal } from "./journal.js";
import { Registers } from "./registers.js";

/** What a holder says; see holder.js. */
interface Said {
  readonly k: string;
  readonly name: string;
  /** Resource, token, grant or grants, and those that the store refused. */
  readonly r: string;
  readonly n: number;
  readonly g: string & readonly string[];
  readonly lost: readonly string[];
  /** When it was sent, received, checked. */
  readonly s: number;
  readonly t: number;
  readonly c: number;
  readonly what: string;
  readonly ms: number;
  readonly served: number;
  readonly gaveUp: number;
  readonly error: string;
}

export class Witness {
  readonly journal = new Journal();
  readonly registers = new Registers();
  /** Errors of holders that no fault explains. */
  readonly unexpected: string[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #waiting = new Map<string, (said: Said) => void>();
  readonly #ready = new Set<string>();

  private constructor() {
    this.#server = createServer({ noDelay: true }, (socket) => this.#hear(socket));
  }

  static async open(): Promise<Witness> {
    const witness = new Witness();
    await new Promise<void>((resolve) => witness.#server.listen(0, "127.0.0.1", resolve));
    return witness;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  /** Whether the holder of this name and incarnation has opened its client. */
  isReady(name: string): boolean {
    return this.#ready.has(name);
  }

  /** The next thing of this kind that it says; null when `ms` are over before. */
  hears(name: string, kind: string, ms: number): Promise<Said | null> {
    const key = `${name} ${kind}`;
    return new Promise((resolve) => {
      const settle = (said: Said | null) => {
        clearTimeout(timer);
        this.#waiting.delete(key);
        resolve(said);
      };
      const timer = setTimeout(() => settle(null), ms);
      this.#waiting.set(key, settle);
    });
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #hear(socket: Socket): void {
    let name = "";
    this.#sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => this.#sockets.delete(socket));
    const lines = createInterface(socket);
    // It passes on what befalls the socket.
    lines.on("error", () => {});
    lines.on("line", (line) => {
      let said: Said;
      try {
        said = JSON.parse(line) as Said;
      } catch {
        // Killed while it wrote.
        return;
      }
      if (said.k === "hello") name = said.name;
      else if (said.k === "write") this.#write(socket, name, said);
      else this.#note(name, said);
      this.#waiting.get(`${name} ${said.k}`)?.(said);
    });
  }

  #write(socket: Socket, by: string, { r, n, g, c }: Said): void {
    const request = { resource: r, token: n, grant: g, by, checkedMs: c };
    const accepted = this.registers.write(request, nowMs());
    this.journal.each([g], (record) => {
      record.trustedMs = Math.max(record.trustedMs, c);
    });
    if (socket.writable) socket.write(`${JSON.stringify({ accepted })}\n`);
  }

  #note(by: string, said: Said): void {
    const { r, n, g, s, t } = said;
    switch (said.k) {
      case "ready":
        this.#ready.add(by);
        break;
      case "granted":
        this.journal.granted({ resource: r, grant: g, token: n, by, sentMs: s, receivedMs: t });
        break;
      case "renewing":
        this.journal.each(g, (record) => {
          record.pendingMs = s;
        });
        break;
      case "renewed":
        this.journal.each(g, (record) => {
          Object.assign(record, { lastSentMs: Math.max(record.lastSentMs, s), pendingMs: null });
        });
        this.journal.each(said.lost, (record) => {
          Object.assign(record, { pendingMs: null, refused: true });
        });
        break;
      case "releasing":
        this.journal.each(g, (record) => {
          record.releasingMs ??= s;
        });
        break;
      case "breach": {
        const what = "trusted after the fence had refused it";
        this.registers.breaches.push({ resource: r, token: n, by, atMs: t, what });
        break;
      }
      case "unexpected":
        this.unexpected.push(`${by}: ${said.error}`);
        break;
    }
  }
}
