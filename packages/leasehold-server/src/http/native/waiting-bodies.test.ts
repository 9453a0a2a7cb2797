/** What a claim that waits keeps of its request. */
import { createConnection, type Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { systemEnv } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { expect, onTestFinished, test, vi } from "vitest";
import { createApp, listen } from "../index.js";

const CLAIMS = 200;
const PADDING = 60_000;

test("claims that wait keep neither the bytes nor the text of their bodies", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const stores = await memory().open(systemEnv);
  const app = createApp({ ...stores, auth: "none", version: "1" });
  const server = await listen({ app, port: 0 });
  const sockets: Socket[] = [];
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await server.close();
    await stores.close();
  });
  const inStore = vi.spyOn(stores.tasks, "claim");
  const usedBytes = () => {
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  /** What so many claims keep while they wait. */
  const keptBytes = async (padding: number, isEnough: (bytes: number) => boolean) => {
    const body = JSON.stringify({ processor: "p", waitMs: 30_000 }) + " ".repeat(padding);
    const head = `Host: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
    const request = Buffer.from(`POST /api/tasks/next HTTP/1.1\r\n${head}\r\n${body}`);
    const before = usedBytes();
    const [opened, claims] = [sockets.length, inStore.mock.calls.length];
    for (let count = 0; count < CLAIMS; count += 1) {
      sockets.push(createConnection(server.port, "127.0.0.1").on("error", () => {}));
    }
    for (const socket of sockets.slice(opened)) socket.write(request);
    await vi.waitUntil(() => inStore.mock.calls.length >= claims + CLAIMS, { timeout: 20_000 });
    const isSettled = () => isEnough(usedBytes() - before);
    await vi.waitUntil(isSettled, { timeout: 5_000 }).catch(() => {});
    return usedBytes() - before;
  };
  await keptBytes(0, () => true);
  const small = await keptBytes(0, () => true);
  const most = small + (CLAIMS * PADDING) / 2;
  expect(await keptBytes(PADDING, (bytes) => bytes < most)).toBeLessThan(most);
});
