/** Connections of ioredis, as far as the store uses them, to servers that a test plays. */
import { EventEmitter } from "node:events";
import type { Address } from "../../../packages/leasehold/src/stores/redis/connection-address.js";
import type {
  Driver,
  RedisConnection,
} from "../../../packages/leasehold/src/stores/redis/connection-driver.js";

/** An error reply of the server. */
export function replyError(message: string): Error {
  return Object.assign(new Error(message), { name: "ReplyError" });
}

export interface Sent {
  /** `host:port`; empty for the only server. */
  readonly node: string;
  readonly connection: number;
  readonly command: string;
  readonly args: readonly (string | Uint8Array | number)[];
}

/** @param answer what the server replies; it throws a {@link replyError} */
export function fakeRedis(answer: (sent: Sent) => unknown, seeds: readonly Address[] = []) {
  const sent: Sent[] = [];
  const open: FakeConnection[] = [];
  const server = { isDown: false };
  let connections = 0;

  class FakeConnection extends EventEmitter {
    status = "wait";
    readonly number = (connections += 1);
    constructor(readonly node: string) {
      super();
      this.on("error", () => {});
    }
    async connect(): Promise<void> {
      if (server.isDown) throw new Error("connect ECONNREFUSED");
      this.status = "ready";
      open.push(this);
    }
    disconnect(): void {
      if (this.status === "end") return;
      this.status = "end";
      const at = open.indexOf(this);
      if (at >= 0) open.splice(at, 1);
      queueMicrotask(() => this.emit("end"));
    }
    async call(command: string, ...args: Sent["args"]): Promise<unknown> {
      const call = { node: this.node, connection: this.number, command, args };
      sent.push(call);
      return await answer(call);
    }
    subscribe(...channels: string[]): Promise<unknown> {
      return this.call("subscribe", ...channels);
    }
    unsubscribe(...channels: string[]): Promise<unknown> {
      return this.call("unsubscribe", ...channels);
    }
  }

  const driver: Driver = {
    name: "Redis",
    prefix: "",
    seeds,
    open(address = seeds[0]) {
      const node = address ? `${address.host}:${address.port}` : "";
      return new FakeConnection(node) as unknown as RedisConnection;
    },
  };
  return { driver, server, sent, open };
}
