// Works on the stores that the arguments name, and on a server of its own.
import * as library from "leasehold";
import { createApp, listen } from "leasehold-server";
import { exercise } from "./exercise.mjs";

async function main() {
  for (const source of process.argv.slice(2)) await work(source);
  const stores = await library.openStores("memory:");
  const app = createApp({ ...stores, auth: "none", version: "1.0.0" });
  const server = await listen({ app, port: 0 });
  await work(server.url);
  await renewInThread(server.url);
  await server.close();
  await stores.close();
}

/**
 * The thread is a file beside the library, which a bundle may not have. Then the error says so.
 * @param {string} source
 */
async function renewInThread(source) {
  try {
    const leasehold = await library.connect(source, { renewIn: "thread" });
    await leasehold.run("runtimes:thread", () => {});
    await leasehold.close();
  } catch (error) {
    if (!String(error).includes("keep leasehold out of bundles, or leave out renewIn")) throw error;
  }
}

/** @param {string} source */
async function work(source) {
  const leasehold = await library.connect(source);
  await exercise(library, leasehold, { hasTasks: !source.startsWith("redis:") });
  await leasehold.close();
}

void main();
