/** Answers that their clients do not read. */
import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { manualEnv } from "leasehold/testing";
import { expect, it, onTestFinished } from "vitest";
import { openTenants } from "../../../../tests/support/server/tenants.js";
import { memory } from "../../../leasehold/src/stores/memory/index.js";
import { limitUnread } from "./connections.js";
import { UNREAD_BYTES } from "./limits/tenant-admission.js";
import { NodeAnswer } from "./node-answer.js";

/** More than the buffers of both ends of a connection have room for. */
const LARGE = "x".repeat(64 * 1_024 * 1_024);

async function serve(handle: (outgoing: ServerResponse, socket: Socket) => void) {
  const server: Server = createServer((incoming, outgoing) => handle(outgoing, incoming.socket));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const ask = (requests = 1) => {
    const client = connect(port, "127.0.0.1").pause();
    client.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(requests));
    client.on("error", () => {});
    onTestFinished(() => void client.destroy());
    return client;
  };
  return { ask };
}

it("an answer ends when it was read, and not before", async () => {
  let answer: NodeAnswer | undefined;
  let ended = () => {};
  const hasEnded = new Promise<void>((resolve) => (ended = resolve));
  let isOver = false;
  const begun = new Promise<void>((resolve) => {
    void serve((outgoing, socket) => {
      answer = new NodeAnswer(outgoing, socket);
      answer.onEnd(() => {
        isOver = true;
        ended();
      });
      outgoing.end(LARGE);
      setImmediate(resolve);
    }).then(({ ask }) => {
      client = ask();
    });
  });
  let client: Socket | undefined;
  await begun;
  expect(isOver).toBe(false);
  expect(answer?.unsent()).toBeGreaterThan(LARGE.length / 2);
  client?.resume();
  await hasEnded;
  expect(answer?.unsent()).toBe(0);
  expect(answer?.bytes()).toBeGreaterThan(LARGE.length);
});

it("all answers of a connection end when it is cut", async () => {
  let open = 0;
  let ended = () => {};
  const haveEnded = new Promise<void>((resolve) => (ended = resolve));
  let client: Socket | undefined;
  const { ask } = await serve((outgoing, socket) => {
    open += 1;
    new NodeAnswer(outgoing, socket).onEnd(() => {
      open -= 1;
      if (open === 0) ended();
    });
    outgoing.end(open === 1 ? LARGE : "");
    if (open === 3) setImmediate(() => client?.destroy());
  });
  client = ask(3);
  await haveEnded;
  expect(open).toBe(0);
});

it("a connection whose answer is not read is ended", async () => {
  const closed = new Promise<void>((resolve) => {
    void serve((outgoing, socket) => {
      socket.once("close", () => resolve());
      limitUnread(socket, 50);
      outgoing.end(LARGE);
    }).then(({ ask }) => ask());
  });
  await closed;
});

it("a request is in flight until its answer was sent, and unread bytes refuse demands", async () => {
  const env = manualEnv();
  const stores = await memory().open(env);
  const tenants = openTenants(stores, env, { tenantInFlight: 2 });
  onTestFinished(async () => {
    await tenants.app.close();
    await stores.close();
  });
  const { text: a } = await tenants.newKey("a", "admin");
  const { text: b } = await tenants.newKey("b", "admin");
  const ends: (() => void)[] = [];
  let unsent = 0;
  const answer = {
    unsent: () => unsent,
    bytes: () => 0,
    onEnd: (call: () => void) => void ends.push(call),
  };
  const ask = async (key: string, path = "/v1/locks", method = "GET") => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const body = method === "POST" ? { body: "[]" } : {};
    const request = new Request(`http://x${path}`, { method, headers, ...body });
    return (await tenants.app.fetch(request, { answer })).status;
  };
  expect([await ask(a), await ask(a), await ask(a), await ask(b)]).toEqual([200, 200, 429, 200]);
  ends.shift()?.();
  expect([await ask(a), await ask(a)]).toEqual([200, 429]);
  for (const end of ends.splice(0)) end();
  unsent = UNREAD_BYTES;
  // Nothing is renewed, but it is served.
  const renew = () => ask(a, "/v1/leases/renew", "POST");
  expect([await ask(a), await ask(a), await renew(), await ask(b)]).toEqual([200, 429, 422, 200]);
  for (const end of ends.splice(0)) end();
  expect(await ask(a)).toBe(200);
});
