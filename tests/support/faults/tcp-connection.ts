/** One connection through the TCP proxy, and all that may become of it. See tcp-proxy.ts. */
import { connect, type Socket } from "node:net";
import type { Random } from "../../../packages/leasehold/src/env/index.js";

export type Direction = "toServer" | "toClient";
type PerDirection = Record<Direction, number>;

/** All grow only. Bytes and chunks are counted where the fault hit them. */
export interface Counts {
  connections: number;
  /** Connections whose server did not take them. */
  unreachable: number;
  /** By reset(), or after an answer that was dropped. */
  resets: number;
  /** That a client or a server reset, which takes with it what is held. */
  broken: number;
  halfCloses: PerDirection;
  forwardedBytes: PerDirection;
  /** In a blackhole, or after a half-close. */
  vanishedBytes: PerDirection;
  heldBytes: PerDirection;
  delayedChunks: PerDirection;
  /** That came of slicing. */
  pieces: PerDirection;
  answersDropped: number;
  duplicatedBytes: number;
  /** What the server answered to duplicates. It is dropped. */
  duplicatesAnsweredBytes: number;
}

/** What may be done. All but reset, half-close and the dropped answer last until `heal()`. */
export interface TcpFaults {
  /** RST to both sides. @returns how many connections that hit */
  reset(): number;
  /**
   * FIN to the receiver of this direction, after what is on its way; what the sender sends from now
   * on vanishes. The other direction goes on. @returns how many connections that hit
   */
  halfClose(direction: Direction): number;
  /** What is on its way and what comes vanishes, a FIN or RST too; the connections stay. */
  blackhole(direction: Direction): void;
  /** Each chunk arrives `delayMs` later, give or take up to `jitterMs` (default 0), in its order. */
  delay(direction: Direction, delayMs: number, jitterMs?: number): void;
  /** Forwards so many bytes at a time (default 1, which cuts at every offset), one each turn. */
  slice(direction: Direction, bytes?: number): void;
  /** Keeps everything back, in its order, until `letGo()`. */
  hold(direction: Direction): void;
  letGo(direction: Direction): void;
  /**
   * Sends what goes to the server from now on over a second connection too, at the same time, whose
   * answers are dropped. For protocols where a connection may start with any request, such as HTTP;
   * a PostgreSQL session wants its startup first.
   */
  duplicate(): void;
  /**
   * Withholds the next answer to a request that is sent from now on, and resets the connection: the
   * server has acted, but its answer is lost. Resolves when that has happened. The answer must not
   * be on its way before the server has acted; PostgreSQL and HTTP servers of ours hold to that.
   * @param isWhole whether this is all of the answer; default: its first bytes suffice
   */
  dropNextAnswer(isWhole?: (answer: Buffer) => boolean): Promise<void>;
  /** Ends what lasts; what was held goes on its way. What has vanished stays so. */
  heal(): void;
}

interface Wiring {
  readonly host: string;
  readonly port: number;
  readonly random: Random;
  readonly counts: Counts;
  /** A count has grown. */
  changed(): void;
  /** Both sides are gone. */
  closed(): void;
}

interface Dropping {
  readonly isWhole: (answer: Buffer) => boolean;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
  /** Something went to the server since. */
  asked: boolean;
  withheld: Buffer;
}

export class ProxiedConnection implements TcpFaults {
  readonly #wiring: Wiring;
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #queues: Record<Direction, Queue>;
  #dropping: Dropping | undefined;
  #twin: Socket | undefined;

  constructor(client: Socket, wiring: Wiring) {
    const { host, port } = wiring;
    this.#wiring = wiring;
    this.#client = client;
    this.#server = connect({ host, port, allowHalfOpen: true, noDelay: true });
    this.#queues = {
      toServer: new Queue("toServer", this.#server, wiring, (bytes) => this.#sent(bytes)),
      toClient: new Queue("toClient", client, wiring, () => {}),
    };
    this.#follow(client, "toServer", (bytes) => this.#queues.toServer.push(bytes));
    this.#follow(this.#server, "toClient", (bytes) => this.#answered(bytes));
    this.#server.once("error", () => {
      if (this.#server.bytesRead + this.#server.bytesWritten > 0) return;
      wiring.counts.unreachable += 1;
      wiring.changed();
    });
  }

  reset(): number {
    resetNow(this.#client);
    resetNow(this.#server);
    this.#wiring.counts.resets += 1;
    this.#wiring.changed();
    return 1;
  }

  halfClose(direction: Direction): number {
    this.#queues[direction].finish();
    this.#wiring.counts.halfCloses[direction] += 1;
    this.#wiring.changed();
    return 1;
  }

  blackhole(direction: Direction): void {
    this.#queues[direction].blackhole();
  }
  delay(direction: Direction, delayMs: number, jitterMs = 0): void {
    Object.assign(this.#queues[direction], { delayMs, jitterMs });
  }
  slice(direction: Direction, bytes = 1): void {
    this.#queues[direction].sliceBytes = bytes;
  }
  hold(direction: Direction): void {
    this.#queues[direction].held = true;
  }
  letGo(direction: Direction): void {
    this.#queues[direction].letGo();
  }

  duplicate(): void {
    if (this.#twin) return;
    const { host, port, counts, changed } = this.#wiring;
    this.#twin = connect({ host, port, noDelay: true });
    this.#twin.on("error", () => {});
    this.#twin.on("data", ({ length }) => {
      counts.duplicatesAnsweredBytes += length;
      changed();
    });
  }

  dropNextAnswer(isWhole: Dropping["isWhole"] = () => true): Promise<void> {
    if (this.#dropping) return Promise.reject(new Error("an answer is to be dropped already"));
    const dropped = new Promise<void>((resolve, reject) => {
      this.#dropping = { isWhole, resolve, reject, asked: false, withheld: Buffer.alloc(0) };
    });
    // The connection may end first: a caller that ignores the promise gets no unhandled rejection.
    dropped.catch(() => {});
    return dropped;
  }

  /** No answer is to be dropped after all; what was withheld goes on its way. */
  keepAnswers(): void {
    const dropping = this.#dropping;
    this.#dropping = undefined;
    if (!dropping) return;
    if (dropping.withheld.length > 0) this.#queues.toClient.push(dropping.withheld);
    dropping.reject(new Error("the answer was not dropped"));
  }

  heal(): void {
    this.#twin?.destroy();
    this.#twin = undefined;
    for (const queue of Object.values(this.#queues)) queue.heal();
  }

  /** Breaks it off. */
  end(): void {
    this.#client.destroy();
    this.#server.destroy();
  }

  #follow(from: Socket, direction: Direction, take: (bytes: Buffer | null) => void): void {
    const to = from === this.#client ? this.#server : this.#client;
    from.on("data", take);
    from.on("end", () => take(null));
    from.on("error", () => {
      this.#wiring.counts.broken += 1;
      this.#wiring.changed();
      if (!this.#queues[direction].blackholed) resetNow(to);
    });
    from.on("close", () => {
      if (!to.destroyed) return;
      this.#twin?.destroy();
      for (const queue of Object.values(this.#queues)) queue.clear();
      this.keepAnswers();
      this.#wiring.closed();
    });
  }

  /** On the way to the server, past all delays. */
  #sent(bytes: Buffer): void {
    if (this.#dropping) this.#dropping.asked = true;
    if (!this.#twin) return;
    this.#twin.write(bytes);
    this.#wiring.counts.duplicatedBytes += bytes.length;
  }

  #answered(bytes: Buffer | null): void {
    const dropping = this.#dropping;
    if (!dropping?.asked) {
      this.#queues.toClient.push(bytes);
      return;
    }
    if (bytes !== null) {
      dropping.withheld = Buffer.concat([dropping.withheld, bytes]);
      if (!dropping.isWhole(dropping.withheld)) return;
    }
    this.#dropping = undefined;
    this.#wiring.counts.answersDropped += 1;
    this.reset();
    dropping.resolve();
  }
}

/** What is on its way in one direction. `null` is the end of the stream. */
class Queue {
  blackholed = false;
  held = false;
  delayMs = 0;
  jitterMs = 0;
  /** 0: not sliced. */
  sliceBytes = 0;
  #chunks: { bytes: Buffer | null; readonly dueMs: number }[] = [];
  #lastDueMs = 0;
  /** A later turn goes on. */
  #waiting: NodeJS.Timeout | NodeJS.Immediate | undefined;
  #finished = false;

  constructor(
    readonly direction: Direction,
    readonly to: Socket,
    readonly wiring: Wiring,
    readonly forwarded: (bytes: Buffer) => void,
  ) {}

  push(bytes: Buffer | null): void {
    if (this.blackholed || this.#finished) {
      this.#count("vanishedBytes", bytes?.length ?? 0);
      return;
    }
    if (this.held) this.#count("heldBytes", bytes?.length ?? 0);
    const nowMs = performance.now();
    if (this.delayMs > 0) this.#count("delayedChunks", 1);
    const jitterMs = this.jitterMs * (2 * this.wiring.random.float() - 1);
    // Never before its predecessor: the order of bytes is TCP's promise.
    this.#lastDueMs = Math.max(this.#lastDueMs, nowMs + Math.max(0, this.delayMs + jitterMs));
    this.#chunks.push({ bytes, dueMs: this.#lastDueMs });
    this.#pump();
  }

  finish(): void {
    this.push(null);
    this.#finished = true;
  }

  blackhole(): void {
    this.blackholed = true;
    for (const { bytes } of this.#chunks) this.#count("vanishedBytes", bytes?.length ?? 0);
    this.clear();
  }

  letGo(): void {
    this.held = false;
    this.#pump();
  }

  heal(): void {
    Object.assign(this, { blackholed: false, delayMs: 0, jitterMs: 0, sliceBytes: 0 });
    this.letGo();
  }

  clear(): void {
    this.#chunks = [];
    clearTimeout(this.#waiting as NodeJS.Timeout);
    clearImmediate(this.#waiting as NodeJS.Immediate);
    this.#waiting = undefined;
  }

  #pump(): void {
    while (!this.held && !this.#waiting) {
      const [first] = this.#chunks;
      if (!first) return;
      const waitMs = first.dueMs - performance.now();
      if (waitMs > 0) {
        this.#waiting = setTimeout(() => this.#goOn(), waitMs);
        return;
      }
      if (this.sliceBytes > 0 && first.bytes !== null) {
        this.#forward(first.bytes.subarray(0, this.sliceBytes));
        this.#count("pieces", 1);
        first.bytes = first.bytes.subarray(this.sliceBytes);
        if (first.bytes.length === 0) this.#chunks.shift();
        this.#waiting = setImmediate(() => this.#goOn());
        return;
      }
      this.#chunks.shift();
      if (first.bytes === null) this.to.end();
      else this.#forward(first.bytes);
    }
  }

  #goOn(): void {
    this.#waiting = undefined;
    this.#pump();
  }

  #forward(bytes: Buffer): void {
    if (!this.to.writable) {
      this.#count("vanishedBytes", bytes.length);
      return;
    }
    this.to.write(bytes);
    this.forwarded(bytes);
    this.#count("forwardedBytes", bytes.length);
  }

  #count(
    name: "vanishedBytes" | "heldBytes" | "delayedChunks" | "pieces" | "forwardedBytes",
    by: number,
  ) {
    this.wiring.counts[name][this.direction] += by;
    this.wiring.changed();
  }
}

/**
 * Sends a reset, unless the end of the stream is just being sent: Node 20 would never close such a
 * socket, and spin at the exit of the process for ever.
 */
function resetNow(socket: Socket): void {
  if (socket.writableEnded && !socket.writableFinished) socket.destroy();
  else socket.resetAndDestroy();
}
