import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { createConnection, type Socket } from "node:net";
import { createApiKey, systemEnv, taskIds } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { expect, it, onTestFinished, vi } from "vitest";
import { newTaskOf } from "../../../leasehold/src/testing/task-suite/new-task.js";
import { createApp, type ListenOptions, listen } from "./index.js";

type Line = Record<string, unknown>;

/** How long a connection without a caller may be idle. */
const IDLE_MS = 5_000;
/** After an idle time that Node announces, it waits for as much longer, because a request may be on its way. */
const NODE_ADDS_MS = 1_000;

async function open(options: Partial<ListenOptions> = {}) {
  const stores = await memory().open(systemEnv);
  const { control } = stores;
  if (!control) throw new Error("memory keeps keys");
  const lines: Line[] = [];
  let onLine = () => {};
  const log = (fields: object) => {
    lines.push({ ...fields });
    onLine();
  };
  const logger = { debug: log, info: log, warn: log, error: log };
  const app = createApp({ ...stores, version: "test", auth: "keys" });
  const server = await listen({ app, port: 0, logger, graceMs: 0, ...options });
  onTestFinished(async () => {
    await server.close();
    await stores.close();
  });
  const dial = async (from?: string) => {
    const to = { port: server.port, host: "127.0.0.1" };
    const socket = createConnection(from === undefined ? to : { ...to, localAddress: from });
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => {});
    await once(socket, "connect");
    return socket;
  };
  const accepted = new Set<Socket>();
  const onAccepted = (message: unknown) => accepted.add((message as { socket: Socket }).socket);
  subscribe("net.server.socket", onAccepted);
  onTestFinished(() => void unsubscribe("net.server.socket", onAccepted));
  /** The other end of a connection, which has the timeouts of the server. */
  const otherEnd = ({ localPort }: Socket): Socket => {
    const found = [...accepted].find(({ remotePort }) => remotePort === localPort);
    if (!found) throw new Error("the server has not accepted this connection");
    return found;
  };
  const logged = async (count: number) => {
    while (lines.length < count) {
      await new Promise<void>((resolve) => {
        onLine = resolve;
      });
    }
    return lines;
  };
  const newKey = async () => {
    const order = {
      namespace: "n",
      name: "k",
      role: "admin" as const,
      prefixes: [""],
      lifetimeMs: null,
    };
    const by = { actor: "test", reason: null };
    return (await createApiKey(control, systemEnv.random, order, by)).text;
  };
  return { stores, dial, otherEnd, logged, newKey };
}

/** Sends a request on a connection that is kept, and returns the head of the response. */
async function ask(socket: Socket, path: string, headers = ""): Promise<string> {
  let answer = "";
  const answered = new Promise<void>((resolve, reject) => {
    const onData = (data: Buffer) => {
      answer += data.toString();
      const [head = "", body] = answer.split("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? "0");
      if (body === undefined || Buffer.byteLength(body) < length) return;
      socket.off("data", onData).off("close", reject);
      resolve();
    };
    socket.on("data", onData).once("close", reject);
  });
  socket.write(`GET ${path} HTTP/1.1\r\nhost: a\r\n${headers}\r\n`);
  await answered;
  return answer;
}

const closed = async (socket: Socket) => {
  socket.resume();
  if (!socket.closed) await once(socket, "close");
};

it("refuses further connections of an address that has its maximum, and says so once", async () => {
  const { dial, logged } = await open({ maxConnections: 10, maxConnectionsPerAddress: 2 });
  const [first, second] = [await dial(), await dial()];
  await closed(await dial());
  await closed(await dial());
  const [line] = await logged(1);
  expect(line).toMatchObject({ event: "connections_refused", address: "127.0.0.1", open: 2 });
  expect(await ask(second, "/healthz")).toContain("HTTP/1.1 200");
  // A connection that ends makes room.
  first.destroy();
  await expect
    .poll(async () => {
      const socket = await dial();
      return ask(socket, "/healthz").catch(() => "refused");
    })
    .toContain("HTTP/1.1 200");
  expect(await logged(1)).toHaveLength(1);
});

it.runIf(process.platform === "linux")("counts connections by address", async () => {
  const { dial } = await open({ maxConnections: 10, maxConnectionsPerAddress: 1 });
  await dial();
  await closed(await dial());
  expect(await ask(await dial("127.0.0.2"), "/healthz")).toContain("HTTP/1.1 200");
});

it("refuses some connections of an address that opens thousands at once, and none of another one", async () => {
  // No time passes, in which more would be admitted.
  const clock = { ...systemEnv.clock, monotonic: () => 0 };
  const { dial, logged } = await open({ maxConnectionsPerAddress: 1_000, clock });
  const ends = await Promise.all(
    Array.from({ length: 600 }, async () => {
      const socket = await dial("127.0.0.2");
      socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
      return new Promise((end) => {
        socket.once("data", () => end("served")).once("close", () => end("refused"));
      });
    }),
  );
  const served = ends.filter((end) => end === "served").length;
  expect(served).toBe(500);
  const [line] = await logged(1);
  expect(line).toMatchObject({ event: "connections_refused", address: "127.0.0.2" });
  const other = await dial();
  other.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
  await once(other, "data");
});

it("leaves a fifth of all connections to other addresses", async () => {
  const { dial, logged } = await open({ maxConnections: 5 });
  for (let n = 0; n < 4; n += 1) await ask(await dial(), "/healthz");
  await closed(await dial());
  expect(await logged(1)).toMatchObject([{ address: "127.0.0.1", open: 4 }]);
});

it("says that there are as many connections as there may be", async () => {
  const { dial, logged } = await open({ maxConnections: 2, maxConnectionsPerAddress: 10 });
  const kept = [await dial(), await dial()];
  await closed(await dial());
  const lines = await logged(1);
  expect(lines).toEqual([
    { event: "connections_refused", address: "127.0.0.1", open: 2, refused: 1 },
  ]);
  for (const socket of kept) expect(await ask(socket, "/healthz")).toContain("HTTP/1.1 200");
});

it("keeps an idle connection of a caller for longer than one without", async () => {
  const { dial, otherEnd, newKey } = await open();
  const key = `authorization: Bearer ${await newKey()}\r\n`;
  const [anonymous, wrong, caller, pipelined] = [
    await dial(),
    await dial(),
    await dial(),
    await dial(),
  ];
  expect(await ask(anonymous, "/healthz")).toMatch(/keep-alive: timeout=5\r\n/i);
  const refused = await ask(wrong, "/v1/locks", key.replace("lh_", "lx_"));
  expect(refused).toMatch(/^HTTP\/1.1 401 .*keep-alive: timeout=5\r\n/is);
  expect(await ask(caller, "/healthz")).toMatch(/keep-alive: timeout=5\r\n/i);
  expect(await ask(caller, "/v1/locks", key)).toMatch(/keep-alive: timeout=65\r\n/i);
  expect(await ask(caller, "/healthz")).toMatch(/keep-alive: timeout=65\r\n/i);
  const two = `/healthz HTTP/1.1\r\nhost: a\r\n\r\nGET /v1/locks`;
  await ask(pipelined, two, key);
  for (const socket of [anonymous, wrong]) {
    await vi.waitUntil(() => otherEnd(socket).timeout === IDLE_MS);
    // Node's own timers of sockets cannot be advanced.
    otherEnd(socket).emit("timeout");
    await closed(socket);
  }
  for (const socket of [caller, pipelined]) {
    const isLong = () => otherEnd(socket).timeout === 65_000 + NODE_ADDS_MS;
    await vi.waitUntil(isLong);
    expect(await ask(socket, "/v1/locks", key)).toContain("HTTP/1.1 200");
  }
});

it("does not cut off a request that takes longer than a connection without a caller may be idle", async () => {
  const { stores, dial, otherEnd, newKey } = await open();
  const key = `authorization: Bearer ${await newKey()}\r\ncontent-type: application/json\r\n`;
  const socket = await dial();
  await ask(socket, "/healthz");
  await vi.waitUntil(() => otherEnd(socket).timeout === IDLE_MS);
  const newId = taskIds(systemEnv.clock, systemEnv.random);
  const claim = vi.spyOn(stores.tasks, "claim");
  const body = JSON.stringify({ processor: "w", waitMs: 30_000 });
  const head = `POST /api/tasks/next HTTP/1.1\r\nhost: a\r\n${key}content-length: ${body.length}`;
  const answered = once(socket, "data");
  socket.write(`${head}\r\n\r\n${body}`);
  await vi.waitUntil(() => claim.mock.calls.length > 0);
  expect(otherEnd(socket).timeout).toBe(0);
  await stores.tasks.enqueue([newTaskOf({ namespace: "n", id: newId() }, { queue: "default" })]);
  expect(String(await answered)).toContain("HTTP/1.1 200");
});
