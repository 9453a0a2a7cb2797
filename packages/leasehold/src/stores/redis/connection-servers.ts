/**
 * Which server a script runs on: the only one, or that which has the slot of its keys.
 *
 *   MOVED  another node has the slot now: noted, and sent there
 *   ASK    the slot is on its way to another node: sent there, this once
 *   else   a node that fails or knows no slots: the map is read anew, from any node that answers
 *
 * Each of the first two says that nothing was done, so sending anew repeats nothing, and it is sent
 * only while its caller waits. (ioredis's own client of a cluster would send it whoever waits, and
 * after a lost connection too.)
 */
import type { Env } from "../../env/index.js";
import { type Argument, Connection } from "./connection.js";
import type { Address, Driver, RedisConnection } from "./connection-driver.js";
import { isRefusal } from "./failures.js";
import { slotOf } from "./keys.js";

/** Renewals and releases go over connections of their own: no crowd of acquirers delays them. */
export type Lane = "general" | "control";

export interface Script {
  readonly text: string;
  /** The server's name for it. */
  readonly sha: string;
}

const MOST_REDIRECTIONS = 5;
const REFRESH_TIMEOUT_MS = 2_000;

export class Servers {
  readonly #connections = new Map<string, Connection>();
  /** By slot: the address of its node. Null: there is one server. */
  #slots: Map<number, string> | null = null;
  #refreshing: Promise<void> | undefined;

  constructor(
    readonly driver: Driver,
    readonly env: Env,
  ) {}

  get isCluster(): boolean {
    return this.#slots !== null;
  }

  /** What runs together must have keys of one such group. */
  groupOf(key: string): number {
    return this.#slots ? slotOf(key) : 0;
  }

  /** All that keep keys: `undefined` is the only one. */
  nodes(): readonly (string | undefined)[] {
    return this.#slots ? [...new Set(this.#slots.values())] : [undefined];
  }

  /** For messages. */
  nameOf(node: string | undefined): string {
    return node === undefined ? this.driver.name : `Redis at ${node}`;
  }

  /** One command to one of {@link nodes}. */
  tell(node: string | undefined, deadlineMs: number, command: string, ...args: Argument[]) {
    return this.#to(node, "general").call(deadlineMs, command, ...args);
  }

  /** One command on one key. Rejects as {@link Connection.call}. */
  command(deadlineMs: number, command: string, key: string, ...args: Argument[]) {
    return this.#routed("general", key, async (connection, asking) => {
      const client = await connection.open(deadlineMs);
      return connection.send(client, deadlineMs, (open) => {
        if (asking) ask(open);
        return open.call(command, key, ...args);
      });
    });
  }

  /** A connection of its own to any server, whose end is not told. */
  separate(name: string, onOpen: (client: RedisConnection) => void): Connection {
    return new Connection(
      name,
      this.env,
      () => {
        const nodes = this.nodes();
        const node = nodes[Math.floor(this.env.random.float() * nodes.length)];
        return this.driver.open(node === undefined ? undefined : addressOf(node));
      },
      onOpen,
    );
  }

  /** From now on a cluster, whose map is kept. */
  async readSlots(deadlineMs: number): Promise<void> {
    const known = new Set([...this.nodes(), ...this.driver.seeds.map(nameOf)]);
    let failure: unknown;
    for (const node of known) {
      try {
        const answer = await this.#to(node, "general").call(deadlineMs, "cluster", "slots");
        const slots = slotsOf(answer, node);
        // In place: calls under way look into it again.
        if (!this.#slots) this.#slots = slots;
        else for (const [slot, owner] of slots) this.#slots.set(slot, owner);
        return;
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  /** Runs a script whose keys are of one group. Rejects as {@link Connection.call}. */
  run(
    lane: Lane,
    { sha, text }: Script,
    keys: readonly string[],
    args: readonly Argument[],
    deadlineMs: number,
  ): Promise<unknown> {
    return this.#routed(lane, keys[0] ?? "", async (connection, asking) => {
      const client = await connection.open(deadlineMs);
      const send = (command: string, script: string) =>
        connection.send(client, deadlineMs, (open) => {
          if (asking) ask(open);
          return open.call(command, script, keys.length, ...keys, ...args);
        });
      try {
        return await send("evalsha", sha);
      } catch (error) {
        // The server has been restarted, or is a node that has never seen it.
        if (!replyOf(error).startsWith("NOSCRIPT")) throw error;
        return send("eval", text);
      }
    });
  }

  close(): void {
    for (const connection of this.#connections.values()) connection.close();
  }

  /** Calls for the server of a key, and again for another one as often as servers say so. */
  async #routed<T>(
    lane: Lane,
    key: string,
    call: (connection: Connection, asking: boolean) => Promise<T>,
  ): Promise<T> {
    const slots = this.#slots;
    if (!slots) return call(this.#to(undefined, lane), false);
    const slot = slotOf(key);
    let asked: string | undefined;
    for (let redirections = 0; ; redirections++) {
      const node = asked ?? slots.get(slot);
      try {
        return await call(this.#to(node, lane), asked !== undefined);
      } catch (error) {
        const redirection = redirectionOf(error, node);
        if (!redirection) this.#refresh();
        if (!redirection || redirections === MOST_REDIRECTIONS) throw error;
        if (redirection.kind === "MOVED") slots.set(slot, redirection.node);
        asked = redirection.kind === "ASK" ? redirection.node : undefined;
      }
    }
  }

  #to(node: string | undefined, lane: Lane): Connection {
    const key = `${lane} ${node ?? ""}`;
    let connection = this.#connections.get(key);
    if (!connection) {
      const { driver, env } = this;
      const address = node === undefined ? undefined : addressOf(node);
      connection = new Connection(this.nameOf(node), env, () => driver.open(address));
      this.#connections.set(key, connection);
    }
    return connection;
  }

  #refresh(): void {
    const deadlineMs = this.env.clock.monotonic() + REFRESH_TIMEOUT_MS;
    this.#refreshing ??= this.readSlots(deadlineMs)
      .catch(() => {})
      .finally(() => {
        this.#refreshing = undefined;
      });
  }
}

/** Counts for the very next command of the connection. */
function ask(client: RedisConnection): void {
  client.call("asking").catch(() => {});
}

/** What the server answered, where that is why a call failed. */
function replyOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return isRefusal(cause) ? cause.message : "";
}

/** @param from the node that says so: an empty host means its own */
function redirectionOf(error: unknown, from: string | undefined) {
  const [, kind, host, port] = /^(MOVED|ASK) \d+ (.*):(\d+)$/.exec(replyOf(error)) ?? [];
  if (kind === undefined) return null;
  return { kind, node: `${host || hostOf(from)}:${port}` };
}

/** From the answer to CLUSTER SLOTS: `[first, last, [host, port, ...] of the primary, ...]` of each range. */
function slotsOf(answer: unknown, from: string | undefined): Map<number, string> {
  const slots = new Map<number, string>();
  for (const [first, last, [host, port]] of answer as [number, number, [string | null, number]][]) {
    const node = `${host || hostOf(from)}:${port}`;
    for (let slot = first; slot <= last; slot++) slots.set(slot, node);
  }
  return slots;
}

function nameOf({ host, port }: Address): string {
  return `${host}:${port}`;
}
function addressOf(node: string): Address {
  return { host: hostOf(node), port: Number(node.slice(node.lastIndexOf(":") + 1)) };
}
function hostOf(node = ""): string {
  return node.slice(0, node.lastIndexOf(":"));
}
