/** etcd with TLS: by gRPC and by the JSON gateway, trusted and not. */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, connect as connectTcp } from "node:net";
import { join } from "node:path";
import { createServer, type Server } from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { TRANSPORTS } from "../../packages/leasehold/src/stores/etcd/open-transport.js";
import { compile } from "../support/compile.js";
import { describeEtcd, type EtcdServer, startEtcd } from "../support/etcd-engine.js";
import { Child, endAll, temporaryFolder } from "../support/processes.js";

describeEtcd("an etcd behind TLS", () => {
  let server: EtcdServer;
  let front: Server;
  let port: number;
  let certificate: string;
  beforeAll(async () => {
    server = await startEtcd();
    const folder = await temporaryFolder();
    certificate = join(folder, "certificate");
    const key = join(folder, "key");
    const names = "subjectAltName=DNS:localhost";
    const wanted = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost".split(" ");
    const files = ["-addext", names, "-keyout", key, "-out", certificate];
    execFileSync("openssl", [...wanted, ...files], { stdio: "ignore" });
    const pem = { key: readFileSync(key), cert: readFileSync(certificate) };
    front = createServer({ ...pem, ALPNProtocols: ["h2", "http/1.1"] }, (client) => {
      const etcd = connectTcp(server.port, "127.0.0.1");
      client.pipe(etcd).pipe(client);
      client.on("error", () => etcd.destroy());
      etcd.on("error", () => client.destroy());
    });
    await once(front.listen(0, "127.0.0.1"), "listening");
    ({ port } = front.address() as AddressInfo);
  }, 30_000);
  afterAll(async () => {
    await server.remove();
    await once(front.close(), "close");
    await endAll();
  });

  describe.each(TRANSPORTS)("by %s", (transport) => {
    const url = () => `etcds://localhost:${port}?transport=${transport}`;

    it("is not trusted without its authority", async () => {
      await expect(connect(url())).rejects.toMatchObject({
        code: "STORE_MISCONFIGURED",
        message: expect.stringMatching(
          /its certificate is not trusted .*; set NODE_EXTRA_CA_CERTS/,
        ) as string,
      });
    });

    it("is reached with its authority in NODE_EXTRA_CA_CERTS", async () => {
      const program = await compile(new URL("../support/wait-for-lease.ts", import.meta.url));
      // Where it is set, grpc-js trusts the authorities in this file alone.
      const { GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: _, ...others } = process.env;
      const env = { ...others, NODE_EXTRA_CA_CERTS: certificate };
      const child = new Child(process.execPath, [program.path, url(), transport], { env });
      await child.until(({ out }) => out.includes("acquired"));
      await child.end("SIGKILL");
      await program.remove();
    });
  });
});
