import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, createConnection, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { MOST_UNANSWERED, oneByOne } from "./one-by-one.js";

const requests = (from: number, end: number) =>
  Array.from(
    { length: end - from },
    (_, at) => `GET /${from + at} HTTP/1.1\r\nHost: a\r\n\r\n`,
  ).join("");

/** A server that answers when the test says so, or as `serve` does. */
async function open(serve?: Parameters<typeof oneByOne>[0]) {
  const serving: { url: string; outgoing: ServerResponse }[] = [];
  const server = createServer(
    oneByOne(
      serve ?? ((incoming, outgoing) => void serving.push({ url: incoming.url ?? "", outgoing })),
    ),
  );
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const sockets: Socket[] = [];
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.closeAllConnections();
    server.close();
  });
  const dial = async () => {
    const socket = createConnection(port, "127.0.0.1");
    sockets.push(socket);
    await once(socket, "connect");
    let text = "";
    socket.setEncoding("utf8").on("data", (part: string) => {
      text += part;
    });
    socket.on("error", () => {});
    return { socket, text: () => text };
  };
  /** Resolves when so many are being served at once or were before. */
  const served = async (count: number) => {
    while (serving.length < count) await new Promise((resolve) => setImmediate(resolve));
    return serving.map(({ url }) => url);
  };
  const answer = (at: number) => serving[at]?.outgoing.end(serving[at]?.url);
  return { dial, served, answer };
}

test("requests of a connection are served one after another, those of others beside them", async () => {
  const { dial, served, answer } = await open();
  const [one, other] = [await dial(), await dial()];
  one.socket.write(requests(0, 5));
  expect(await served(1)).toEqual(["/0"]);
  other.socket.write(requests(10, 12));
  expect(await served(2)).toEqual(["/0", "/10"]);
  for (const [at, next] of ["/1", "/2", "/3", "/4"].entries()) {
    answer(at === 0 ? 0 : at + 1);
    expect((await served(at + 3)).at(-1)).toBe(next);
  }
  answer(5);
  while (!one.text().includes("/4")) await once(one.socket, "data");
  expect([...one.text().matchAll(/\r\n\r\n(?:\w+\r\n)?(\/\d)/g)].map(([, url]) => url)).toEqual([
    "/0",
    "/1",
    "/2",
    "/3",
    "/4",
  ]);
});

test("a client that sends too many requests without an answer is cut off, and nothing of them served", async () => {
  const { dial, served, answer } = await open();
  const patient = await dial();
  patient.socket.write(requests(0, MOST_UNANSWERED));
  const flooding = await dial();
  expect(await served(1)).toEqual(["/0"]);
  const ended = once(flooding.socket, "close");
  flooding.socket.write(requests(1_000, 1_000 + MOST_UNANSWERED + 1));
  await ended;
  expect(await served(2)).toEqual(["/0", "/1000"]);
  // The other one has as many as it may have.
  answer(0);
  expect(await served(3)).toEqual(["/0", "/1000", "/1"]);
});

test("a connection that was answered may send again", async () => {
  const { dial, served, answer } = await open();
  const { socket } = await dial();
  for (let round = 0; round < 3; round += 1) {
    socket.write(requests(round * 10, round * 10 + 2));
    await served(2 * round + 1);
    answer(2 * round);
    await served(2 * round + 2);
    answer(2 * round + 1);
  }
  expect(await served(6)).toEqual(["/0", "/1", "/10", "/11", "/20", "/21"]);
});

/** @returns the number of the current turn of the event loop */
function countTurns(): () => number {
  let turn = 0;
  let counting = setImmediate(function count() {
    turn += 1;
    counting = setImmediate(count);
  });
  onTestFinished(() => clearImmediate(counting));
  return () => turn;
}

test("a turn of the event loop serves what few of many connections have sent ahead", async () => {
  const turn = countTurns();
  const first: ServerResponse[] = [];
  const ahead: number[] = [];
  const { dial } = await open(({ url }, outgoing) => {
    if (url === "/0") first.push(outgoing);
    else {
      ahead.push(turn());
      outgoing.end();
    }
  });
  const connections = 120;
  const dialled = await Promise.all(Array.from({ length: connections }, () => dial()));
  for (const { socket } of dialled) socket.write(requests(0, 2));
  while (first.length < connections) await new Promise((resolve) => setImmediate(resolve));
  for (const outgoing of first) outgoing.end();
  while (ahead.length < connections) await new Promise((resolve) => setImmediate(resolve));
  const most = Math.max(...ahead.map((each) => ahead.filter((other) => other === each).length));
  expect(most).toBeLessThanOrEqual(10);
});

test("a turn of the event loop serves one request of a connection, and accepts others between", async () => {
  const turn = countTurns();
  const turns: number[] = [];
  const { dial } = await open((_, outgoing) => {
    turns.push(turn());
    outgoing.end();
  });
  const { socket } = await dial();
  socket.write(requests(0, MOST_UNANSWERED));
  while (turns.length < MOST_UNANSWERED) await new Promise((resolve) => setImmediate(resolve));
  expect(new Set(turns).size).toBe(MOST_UNANSWERED);
});
