/** What is known of a call by gRPC that fails, from a scripted server. */
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { createServer, type Http2Server, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { type GrpcTransport, openGrpc } from "./grpc-transport.js";

const OK = { ":status": 200, "content-type": "application/grpc" };

async function open() {
  const asked: ServerHttp2Stream[] = [];
  const tokens: unknown[] = [];
  const server = createServer();
  server.on("stream", (stream, headers) => {
    stream.on("error", () => {}).resume();
    asked.push(stream);
    tokens.push(headers["token"]);
    server.emit("asked");
  });
  await listen(server);
  const transport = await openGrpc();
  onTestFinished(async () => {
    transport.close();
    for (const { session } of asked) session?.destroy();
    await once(server.close(), "close");
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const received = async (count: number) => {
    while (asked.length < count) await once(server, "asked");
    return asked[count - 1] as ServerHttp2Stream;
  };
  return { transport, endpoint, asked, tokens, received };
}

async function listen(server: Pick<Http2Server, "listen" | "once">): Promise<void> {
  server.listen(0, "127.0.0.1");
  await once(server as Http2Server, "listening");
}

function call(
  transport: GrpcTransport,
  endpoint: string,
  { token = null, signal = new AbortController().signal }: Partial<Context> = {},
) {
  const calling = transport.call(endpoint, "Range", { key: "a" }, { token, signal });
  calling.catch(() => {});
  return calling;
}
type Context = Parameters<GrpcTransport["call"]>[3];

/** Answers with a status, as etcd does after a call without a response. */
function answer(stream: ServerHttp2Stream, status: number, message: string): void {
  stream.respond(
    { ...OK, "grpc-status": `${status}`, "grpc-message": encodeURI(message) },
    { endStream: true },
  );
}

it("knows that a call was not sent where it never had a connection", async () => {
  const { transport, endpoint, received } = await open();
  const refused = call(transport, "http://127.0.0.1:1");
  await expect(refused).rejects.toMatchObject({
    reason: "unreachable",
    error: { code: "STORE_UNAVAILABLE", outcome: "none" },
  });
  const http1 = createHttpServer();
  await listen(http1 as unknown as Http2Server);
  const { port } = http1.address() as AddressInfo;
  await expect(call(transport, `http://127.0.0.1:${port}`)).rejects.toMatchObject({
    error: { code: "STORE_MISCONFIGURED", outcome: "none" },
  });
  await once(http1.close(), "close");
  const sent = call(transport, endpoint);
  (await received(1)).session?.destroy();
  await expect(sent).rejects.toMatchObject({
    reason: "unreachable",
    error: { code: "STORE_UNAVAILABLE", outcome: "unknown" },
  });
});

it("tells apart what etcd says, with the gRPC code that the connection's own failures have", async () => {
  const { transport, endpoint, received } = await open();
  const said = [
    [14, "etcdserver: no leader", { reason: "other", error: { outcome: "unknown" } }],
    [14, "etcdserver: request timed out", { reason: "other", error: { outcome: "unknown" } }],
    [8, "etcdserver: too many requests", { reason: "other", error: { outcome: "none" } }],
    [5, "etcdserver: requested lease not found", { reason: "noLease" }],
    [11, "etcdserver: mvcc: required revision has been compacted", { reason: "compacted" }],
    [16, "etcdserver: invalid auth token", { reason: "unauthenticated" }],
    [7, "etcdserver: permission denied", { error: { code: "STORE_MISCONFIGURED" } }],
    [8, "grpc: received message larger than max (3 vs. 2)", { error: { retryable: false } }],
    [14, "a proxy's own words", { reason: "unreachable", error: { outcome: "unknown" } }],
  ] as const;
  for (const [at, [status, message, expected]] of said.entries()) {
    const calling = call(transport, endpoint);
    answer(await received(at + 1), status, message);
    await expect(calling, message).rejects.toMatchObject(expected);
  }
});

it("reports a server that is no etcd", async () => {
  const { transport, endpoint, received } = await open();
  const calling = call(transport, endpoint);
  (await received(1)).respond({ ":status": 404 }, { endStream: true });
  await expect(calling).rejects.toMatchObject({ error: { code: "STORE_MISCONFIGURED" } });
});

it("sends the token, and ends a call at the abort", async () => {
  const { transport, endpoint, received, tokens } = await open();
  const stop = new AbortController();
  const calling = call(transport, endpoint, { token: "t-1", signal: stop.signal });
  const stream = await received(1);
  const closed = once(stream, "close");
  stop.abort();
  await expect(calling).rejects.toMatchObject({ error: { outcome: "unknown" } });
  await closed;
  expect(tokens).toEqual(["t-1"]);
});

it("takes a new connection after a failure, and leaves the calls in flight alone", async () => {
  const { transport, endpoint, asked, received } = await open();
  const first = call(transport, endpoint);
  const second = call(transport, endpoint);
  await received(2);
  transport.leave(endpoint);
  const third = call(transport, endpoint);
  await received(3);
  const [old, same, fresh] = asked.map(({ session }) => session);
  expect(same).toBe(old);
  expect(fresh).not.toBe(old);
  const outcomes = [first, second, third].map((calling) =>
    expect(calling).rejects.toMatchObject({ reason: "noLease" }),
  );
  for (const stream of asked) answer(stream, 5, "etcdserver: requested lease not found");
  await Promise.all(outcomes);
});
