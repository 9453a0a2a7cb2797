import { once } from "node:events";
import { createServer as createHttpServer, request } from "node:http";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type Direction, openTcpProxy, type TcpProxy } from "./tcp-proxy.js";

/** A connection from one of its two ends: what came, and how it ended. */
class End {
  /** As it came, chunk by chunk. */
  readonly chunks: string[] = [];
  over: "FIN" | "RST" | undefined;
  #look = () => {};

  constructor(readonly socket: Socket) {
    socket.setNoDelay();
    socket.on("data", (bytes) => this.#note(() => this.chunks.push(bytes.toString())));
    socket.on("end", () => this.#note(() => (this.over = "FIN")));
    socket.on("error", () => this.#note(() => (this.over = "RST")));
  }

  get came(): string {
    return this.chunks.join("");
  }

  send(bytes: string): void {
    this.socket.write(bytes);
  }

  /** Resolves at the event that makes it so. */
  async until(holds: (end: this) => boolean): Promise<void> {
    while (!holds(this)) {
      await new Promise<void>((resolve) => {
        this.#look = resolve;
      });
    }
  }
  untilCame(what: string): Promise<void> {
    return this.until(({ came }) => came === what);
  }
  untilOver(how: "FIN" | "RST"): Promise<void> {
    return this.until(({ over }) => over === how);
  }

  #note(change: () => void): void {
    change();
    this.#look();
  }
}

let server: Server;
let proxy: TcpProxy;
/** The server's ends, in the order in which they came. */
let served: End[];
/** What the server answers. */
let answer: (said: string) => string;
const clients: Socket[] = [];

beforeEach(async () => {
  served = [];
  answer = (said) => said;
  server = createServer({ allowHalfOpen: true }, (socket) => {
    const end = new End(socket);
    served.push(end);
    socket.on("data", (bytes) => end.send(answer(bytes.toString())));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  proxy = await openTcpProxy({ port: (server.address() as AddressInfo).port });
});
afterEach(async () => {
  for (const socket of clients.splice(0)) socket.destroy();
  await proxy.close();
  for (const { socket } of served) socket.destroy();
  server.close();
});

/** A client whose connection stands, on both of its legs: it has said something and heard it. */
async function join(greeting = "hi "): Promise<{ client: End; onServer: End }> {
  const before = served.length;
  const client = connecting();
  client.send(greeting);
  await client.untilCame(greeting);
  return { client, onServer: served[before]! };
}
function connecting(): End {
  const socket = connect({ port: proxy.port, host: "127.0.0.1", allowHalfOpen: true });
  clients.push(socket);
  return new End(socket);
}

it("passes on what is said, and both ends of the stream", async () => {
  const { client, onServer } = await join();
  client.send("you");
  await client.untilCame("hi you");
  client.socket.end();
  await onServer.untilOver("FIN");
  onServer.socket.end();
  await client.untilOver("FIN");
  await proxy.until(() => proxy.connections.length === 0);
  expect(proxy.counts).toMatchObject({
    connections: 1,
    resets: 0,
    forwardedBytes: { toServer: 6, toClient: 6 },
    vanishedBytes: { toServer: 0, toClient: 0 },
  });
});

it("passes on a reset, and resets where there is no server", async () => {
  const { client, onServer } = await join();
  client.socket.resetAndDestroy();
  await onServer.untilOver("RST");
  const gone = new Promise((resolve) => server.close(resolve));
  onServer.socket.destroy();
  await gone;
  await connecting().untilOver("RST");
  expect(proxy.counts).toMatchObject({ connections: 2, unreachable: 1, resets: 0 });
});

it("resets what it has just closed one way, and lets go of it", async () => {
  const { client } = await join();
  proxy.halfClose("toServer");
  proxy.halfClose("toClient");
  proxy.reset();
  await client.untilOver("FIN");
  await proxy.until(() => proxy.connections.length === 0);
});

it("resets one connection, or all", async () => {
  const [first, second, third] = [await join(), await join(), await join()];
  expect(proxy.connections[1]?.reset()).toBe(1);
  await Promise.all([second.client.untilOver("RST"), second.onServer.untilOver("RST")]);
  expect([first.client.over, third.onServer.over]).toEqual([undefined, undefined]);
  await proxy.until(() => proxy.connections.length === 2);
  expect(proxy.reset()).toBe(2);
  for (const { client, onServer } of [first, third]) {
    await Promise.all([client.untilOver("RST"), onServer.untilOver("RST")]);
  }
  expect(proxy.counts.resets).toBe(3);
});

it("refuses connections, and takes them again", async () => {
  const { client } = await join();
  expect(proxy.refuse()).toBe(1);
  await client.untilOver("RST");
  await connecting().untilOver("RST");
  expect(proxy.counts.connections).toBe(1);
  proxy.heal();
  await join("back");
  expect(proxy.counts.connections).toBe(2);
});

it("closes the way to the server, which may go on speaking", async () => {
  const { client, onServer } = await join();
  proxy.halfClose("toServer");
  await onServer.untilOver("FIN");
  client.send("lost");
  await proxy.until(({ vanishedBytes }) => vanishedBytes.toServer === 4);
  onServer.send("still here");
  await client.untilCame("hi still here");
  expect(onServer.came).toBe("hi ");
  expect(proxy.counts.halfCloses).toEqual({ toServer: 1, toClient: 0 });
});

it("closes the way to the client, who may go on speaking", async () => {
  const { client, onServer } = await join();
  proxy.halfClose("toClient");
  await client.untilOver("FIN");
  client.send("do it");
  await onServer.untilCame("hi do it");
  await proxy.until(({ vanishedBytes }) => vanishedBytes.toClient === 5);
  expect(client.came).toBe("hi ");
  expect(proxy.counts.halfCloses).toEqual({ toServer: 0, toClient: 1 });
});

it("swallows requests, an end of the stream too, and the connection stays", async () => {
  const { client, onServer } = await join();
  proxy.blackhole("toServer");
  client.send("lost");
  await proxy.until(({ vanishedBytes }) => vanishedBytes.toServer === 4);
  onServer.send("unasked");
  await client.untilCame("hi unasked");
  client.socket.resetAndDestroy();
  // Another connection is hit as well. What came before it on the first has been dealt with.
  const other = connecting();
  other.send("hello?");
  await proxy.until(({ vanishedBytes }) => vanishedBytes.toServer === 10);
  expect(onServer.came).toBe("hi ");
  expect(onServer.over).toBeUndefined();
  proxy.heal();
  other.send("hello!");
  await other.untilCame("hello!");
});

it("swallows answers, after the server has acted", async () => {
  const { client, onServer } = await join();
  proxy.blackhole("toClient");
  client.send("do it");
  await onServer.untilCame("hi do it");
  await proxy.until(({ vanishedBytes }) => vanishedBytes.toClient === 5);
  proxy.heal();
  client.send(" again");
  await client.untilCame("hi  again");
});

it.each<Direction>(["toServer", "toClient"])("delays what goes %s, in order", async (way) => {
  const { client, onServer } = await join();
  proxy.delay(way, 20, 10);
  const words = Array.from({ length: 20 }, (_, index) => `${index},`);
  const startMs = performance.now();
  for (const [index, word] of words.entries()) {
    client.send(word);
    // Each goes by itself, and none waits for the one before it to arrive.
    if (way === "toServer") await proxy.until(({ delayedChunks }) => delayedChunks[way] > index);
    else await onServer.untilCame(`hi ${words.slice(0, index + 1).join("")}`);
  }
  await client.untilCame(`hi ${words.join("")}`);
  // The delay is at least 10 ms, but a timer may fire a fraction of a millisecond early.
  expect(performance.now() - startMs).toBeGreaterThanOrEqual(9);
  proxy.heal();
  const delayed = proxy.counts.delayedChunks[way];
  client.send("at once");
  await client.until(({ came }) => came.endsWith("at once"));
  expect(proxy.counts.delayedChunks).toMatchObject({ [way]: delayed });
});

it.each<Direction>(["toServer", "toClient"])("cuts what goes %s at every offset", async (way) => {
  const { client, onServer } = await join();
  const receiver = way === "toServer" ? onServer : client;
  const before = receiver.chunks.length;
  proxy.slice(way);
  client.send("a message of some length");
  await client.untilCame("hi a message of some length");
  expect(proxy.counts.pieces).toEqual({ toServer: 0, toClient: 0, [way]: 24 });
  // A busy receiver may read several at once.
  expect(receiver.chunks.length - before).toBeGreaterThan(1);
  proxy.slice(way, 10);
  client.send("a message of some length");
  await client.until(({ came }) => came.length === 51);
  expect(proxy.counts.pieces[way]).toBe(24 + 3);
});

it.each<Direction>(["toServer", "toClient"])("holds what goes %s until let go", async (way) => {
  const { client, onServer } = await join();
  proxy.hold(way);
  client.send("one ");
  await proxy.until(({ heldBytes }) => heldBytes[way] === 4);
  client.send("two ");
  await proxy.until(({ heldBytes }) => heldBytes[way] === 8);
  // The other direction, and nothing else, goes on.
  if (way === "toServer") {
    onServer.send("unasked ");
    await client.untilCame("hi unasked ");
    expect(onServer.came).toBe("hi ");
  } else {
    expect(onServer.came).toBe("hi one two ");
    expect(client.came).toBe("hi ");
  }
  const late = connecting();
  late.send("three");
  await proxy.until(({ heldBytes }) => heldBytes[way] === 13);
  proxy.letGo(way);
  await client.until(({ came }) => came.endsWith("one two "));
  await late.untilCame("three");
});

it("drops an answer after the server has acted, and then the connection", async () => {
  const { client, onServer } = await join();
  const bystander = await join();
  const dropped = proxy.connections[0]!.dropNextAnswer();
  // Data that comes before the next request is not its answer.
  onServer.send("news ");
  await client.untilCame("hi news ");
  client.send("do it");
  await dropped;
  await Promise.all([client.untilOver("RST"), onServer.untilOver("RST")]);
  expect(onServer.came).toBe("hi do it");
  expect(client.came).toBe("hi news ");
  bystander.client.send("me too");
  await bystander.client.untilCame("hi me too");
  expect(proxy.counts).toMatchObject({ answersDropped: 1, resets: 1 });
});

it("drops one answer of those of all connections, when it is whole", async () => {
  const [first, second] = [await join(), await join()];
  answer = (said) => (said === "first" ? "half" : `${said}.`);
  const dropped = proxy.dropNextAnswer((said) => said.toString().endsWith("."));
  first.client.send("first");
  await first.onServer.untilCame("hi first");
  const late = connecting();
  late.send("third");
  await dropped;
  await late.untilOver("RST");
  // The other connections get the answers that were withheld from them.
  await first.client.untilCame("hi half");
  second.client.send("second");
  await second.client.untilCame("hi second.");
  expect(proxy.counts).toMatchObject({ answersDropped: 1, resets: 1 });
});

it("says of a dropped answer that never came that it did not occur", async () => {
  await join();
  const dropped = expect(proxy.dropNextAnswer()).rejects.toThrow("the proxy is closed");
  const one = expect(proxy.connections[0]!.dropNextAnswer()).rejects.toThrow("already");
  await proxy.close();
  await Promise.all([dropped, one]);
});

it("delivers an HTTP request twice, and its answer once", async () => {
  const acted: string[] = [];
  const web = createHttpServer(async (incoming, outgoing) => {
    acted.push(await text(incoming));
    outgoing.end(`${incoming.method} done`);
  });
  web.listen(0, "127.0.0.1");
  await once(web, "listening");
  const between = await openTcpProxy({ port: (web.address() as AddressInfo).port });
  const post = async (body: string) => {
    const asking = request({ port: between.port, host: "127.0.0.1", method: "POST", agent: false });
    asking.end(body);
    const [answered] = await once(asking, "response");
    return text(answered);
  };
  try {
    between.duplicate();
    expect(await post("a body")).toBe("POST done");
    await between.until(({ duplicatesAnsweredBytes }) => duplicatesAnsweredBytes > 0);
    expect(acted).toEqual(["a body", "a body"]);
    expect(between.counts.duplicatedBytes).toBe(between.counts.forwardedBytes.toServer);
    between.heal();
    expect(await post("another")).toBe("POST done");
    expect(acted).toEqual(["a body", "a body", "another"]);
  } finally {
    await between.close();
    web.closeAllConnections();
    web.close();
  }
});
