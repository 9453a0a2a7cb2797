/** What listens at an address, where a handshake comes to no end. */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:tls";
import { afterAll, expect, it } from "vitest";
import { endAll } from "../../../../tests/support/processes/processes.js";
import { newAuthority } from "../../../../tests/support/server/certificates.js";
import { otherProtocolAt } from "./protocols.js";

afterAll(() => endAll());

it("knows TLS by the alert of a server that misses a certificate of the client", async () => {
  const authority = await newAuthority();
  const own = await authority.sign("server", ["127.0.0.1"]);
  const [ca, cert, key] = await Promise.all(
    [authority.certificate, own.certificate, own.key].map((path) => readFile(path, "utf8")),
  );
  // From 1.3 on, the client takes the handshake for complete before the server has looked at its certificate.
  const server = createServer({
    ca: ca!,
    cert: cert!,
    key: key!,
    requestCert: true,
    maxVersion: "TLSv1.2",
  });
  server.on("tlsClientError", () => {});
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
  expect(await otherProtocolAt(address, "TLS")).toBeNull();
  expect(await otherProtocolAt(address, "ZooKeeper")).toBe("TLS");
  await once(server.close(), "close");
});
