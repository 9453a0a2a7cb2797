/** A server whose clients disconnect, and what it may keep of them afterwards: nothing. */
import { once } from "node:events";
import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { type Env, systemEnv } from "../../../packages/leasehold/src/env/index.js";
import type { Stores } from "../../../packages/leasehold/src/stores/source.js";
import { REQUEST_ID_HEADER } from "../../../packages/leasehold/src/wire/index.js";
import { createApp, type ServerLimits } from "../../../packages/leasehold-server/src/http/index.js";
import { CountedApp, HOSTS, Requests } from "../server/http-hosts.js";
import type { Request } from "../server/tenants.js";
import { Gate, gated, type Side } from "./gated-stores.js";

/** The moment at which a client disconnects, and the side of the store on which its call is then stopped. */
export const MOMENTS = {
  "before its request is handled": null,
  "while its body is uploaded": null,
  "while its call is on the way to the store": "before",
  "after the store has acted": "after",
  "before it reads the answer": null,
} as const satisfies Readonly<Record<string, Side | null>>;
export type Moment = keyof typeof MOMENTS;

/** Room for one: what a client leaves behind refuses the next. */
const ROOM_FOR_ONE = { inFlight: 1, waiters: 1, streams: 1 };

/**
 * Serves the stores, which the caller closes.
 * @param host a name in {@link HOSTS}
 * @param options.room by default for one client only
 */
export async function openDisconnecting(
  stores: Stores,
  host: string,
  { room = ROOM_FOR_ONE, env = systemEnv }: { room?: Partial<ServerLimits>; env?: Env } = {},
) {
  const gate = new Gate();
  const requests = new Requests();
  const counted = new CountedApp(
    createApp({
      ...gated(stores, gate),
      env,
      auth: "none",
      limits: { lateMs: null, ratePerSecond: null, ...room },
      metrics: async () => "",
      version: "test",
    }),
  );
  const open = HOSTS[host];
  if (!open) throw new Error(`no such host: ${host}`);
  const { port, close } = await open(counted.app);
  const agent = new Agent({ keepAlive: true });
  let sent = 0;
  const newId = () => `disconnect-${(sent += 1)}`;

  /** Resolves when no request is worked on and no call to the store is open. */
  const idle = () =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (counted.answering > 0 || gate.inFlight > 0) return;
        for (const stop of stops) stop();
        resolve();
      };
      const stops = [counted.onAnswer(look), gate.onAnswer(look)];
      look();
    });

  const closeAll = async () => {
    agent.destroy();
    await counted.app.close();
    await close();
    requests.close();
  };
  let closed: Promise<void> | undefined;

  return {
    url: `http://127.0.0.1:${port}`,
    gate,
    requests,
    idle,
    /** Sends the request and reads the answer; of a stream its beginning. */
    async ask({ method, path, body }: Request): Promise<{ status: number; text: string }> {
      const id = newId();
      const bytes = body === undefined ? undefined : JSON.stringify(body);
      const outgoing = httpRequest({
        host: "127.0.0.1",
        port,
        agent,
        method,
        path,
        headers: {
          [REQUEST_ID_HEADER]: id,
          ...(bytes !== undefined && {
            "content-type": "application/json",
            "content-length": Buffer.byteLength(bytes),
          }),
        },
      });
      const answered = once(outgoing, "response");
      outgoing.end(bytes);
      const [incoming] = (await answered) as [IncomingMessage];
      const status = incoming.statusCode ?? 0;
      if (incoming.headers["content-type"]?.startsWith("text/event-stream")) {
        await once(incoming, "data");
        incoming.destroy();
        await requests.closed(id);
        return { status, text: "" };
      }
      const whole = await text(incoming);
      await requests.closed(id);
      return { status, text: whole };
    },
    /** Sends the request, or a part of it, and disconnects. Resolves when the server knows. */
    async leave(moment: Moment, request: Request): Promise<void> {
      const id = newId();
      const socket = await connected(port);
      const answered = once(socket, "readable");
      answered.catch(() => {});
      const [head, body] = messageOf(request, id);
      if (moment === "before its request is handled") {
        socket.write(head + body);
      } else if (moment === "while its body is uploaded") {
        socket.write(head + body.slice(0, body.length / 2));
        await requests.started(id);
      } else {
        const side = MOMENTS[moment];
        const stopped = side && gate.shut(side);
        socket.write(head + body);
        // Some requests need no store: they are answered.
        await (stopped ? Promise.race([stopped, answered]) : answered);
      }
      socket.destroy();
      await requests.closed(id);
      gate.open();
      await idle();
    },
    /** Sends the request and leaves the connection open. */
    async begin(request: Request) {
      const id = newId();
      const socket = await connected(port);
      socket.write(messageOf(request, id).join(""));
      await requests.started(id);
      return {
        socket,
        async leave() {
          socket.destroy();
          await requests.closed(id);
        },
      };
    },
    close: () => (closed ??= closeAll()),
  };
}

export async function connected(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  // A server may reset the connection of a client that has gone.
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

/** @returns the bytes of the request, in two parts */
export function messageOf(
  { method, path, body, headers = {} }: Request & { readonly headers?: Record<string, string> },
  id: string,
): [head: string, body: string] {
  const bytes = body === undefined ? "" : JSON.stringify(body);
  const all = { host: "localhost", [REQUEST_ID_HEADER]: id, ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  if (bytes !== "") {
    lines.push("content-type: application/json", `content-length: ${Buffer.byteLength(bytes)}`);
  }
  return [`${[`${method} ${path} HTTP/1.1`, ...lines].join("\r\n")}\r\n\r\n`, bytes];
}

type Query = (text: string) => Promise<readonly Record<string, unknown>[]>;

/** What the database works on for other sessions, and their open transactions. */
export function openTransactions(query: Query): ReturnType<Query> {
  return query(`SELECT state, query FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'`);
}
