/** A client of TLS 1.2 that wants a second handshake on its connection, with openssl. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { systemEnv } from "leasehold/internal";
import { memory } from "leasehold/stores/memory";
import { afterAll, expect, it } from "vitest";
import { createApp, listen } from "../../packages/leasehold-server/src/http/index.js";
import { endAll } from "../support/processes/processes.js";
import { newAuthority } from "../support/server/certificates.js";

afterAll(() => endAll());

it("is cut off", async () => {
  const authority = await newAuthority();
  const { certificate, key } = await authority.sign("server", ["127.0.0.1"]);
  const tls = { cert: await readFile(certificate, "utf8"), key: await readFile(key, "utf8") };
  const stores = await memory().open(systemEnv);
  const app = createApp({ ...stores, auth: "none", version: "1" });
  const server = await listen({ app, port: 0, tls, graceMs: 0 });
  try {
    const at = `127.0.0.1:${server.port}`;
    const client = spawn("openssl", ["s_client", "-tls1_2", "-connect", at]);
    const ended = once(client, "close");
    const said = text(client.stderr);
    for await (const chunk of client.stdout.setEncoding("utf8")) {
      // The end of what openssl says of the first handshake. A line "R" makes it ask for another one.
      if (`${chunk}`.includes("Extended master secret")) client.stdin.write("R\n");
    }
    await ended;
    expect(await said).toMatch(/RENEGOTIATING[^]*no renegotiation/i);
  } finally {
    await server.close();
    await stores.close();
  }
}, 60_000);
