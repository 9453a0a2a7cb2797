/** One etcd member, and itself again on a snapshot that was made while clients were at work. */
import { join } from "node:path";
import { type EtcdServer, startEtcd } from "../../../tests/support/engines/etcd-engine.js";
import { temporaryFolder } from "../../../tests/support/processes/processes.js";
import type { Pair } from "./pair.js";

export async function snapshotPair(): Promise<Pair> {
  const server = await startEtcd();
  const file = join(await temporaryFolder(), "snapshot");
  return {
    url: server.url,
    async cut() {
      await server.ask("snapshot", "save", file);
    },
    async failOver() {
      await server.kill9();
      await server.startFrom(file);
    },
    async raiseTokens(above) {
      while ((await write(server)) <= above);
    },
    close: () => server.remove(),
  };
}

/** Of a key that means nothing. @returns the revision that it made */
async function write({ port }: EtcdServer): Promise<number> {
  const key = Buffer.from("revision").toString("base64");
  const response = await fetch(`http://127.0.0.1:${port}/v3/kv/put`, {
    method: "POST",
    body: JSON.stringify({ key, value: "" }),
  });
  const { header } = (await response.json()) as { header: { revision: string } };
  return Number(header.revision);
}
