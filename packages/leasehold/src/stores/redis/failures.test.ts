/** How the store reports failures that ioredis words in its own way. */
import { Redis } from "ioredis";
import { expect, it, onTestFinished } from "vitest";
import { endAll } from "../../../../../tests/support/processes/processes.js";
import { newAuthority } from "../../../../../tests/support/server/certificates.js";
import type { TlsFiles } from "../../store-kit/tls.js";
import { driverByAddress } from "./connection-driver.js";
import { storeError } from "./failures.js";

it("names one server where several were named and there is no cluster", () => {
  const reply = Object.assign(new Error("ERR This instance has cluster support disabled"), {
    name: "ReplyError",
  });
  for (const sent of [true, false]) {
    const error = storeError(reply, sent);
    expect(error).toMatchObject({ code: "STORE_MISCONFIGURED", retryable: false });
    expect(error.message).toMatch(/it is no cluster: name one server$/);
  }
});

it("refuses the key of another certificate, and an authority without a certificate, before it connects", async () => {
  onTestFinished(() => endAll());
  const authority = await newAuthority();
  const [one, other] = [await authority.sign("one"), await authority.sign("other")];
  const host = { host: "127.0.0.1", port: 1 };
  const open = (tls: TlsFiles) =>
    driverByAddress({
      hosts: [host],
      tls,
      username: "",
      password: "",
      database: 0,
      sentinel: null,
      format: null,
    });
  const ca = authority.certificate;
  for (const tls of [
    { ca, cert: one.certificate, key: other.key },
    { ca: one.key, cert: null, key: null },
  ]) {
    await expect(open(tls)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(/^the certificates for Redis cannot be used: /) as string,
    });
  }
});

it("reports applied no for a command that was never written", async () => {
  const client = new Redis({ lazyConnect: true, enableOfflineQueue: false });
  const error = await client.get("key").catch((reason: unknown) => reason);
  client.disconnect();
  expect(storeError(error, true)).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "none" });
});

it("reports applied maybe for a command whose connection ended", () => {
  const error = new Error("Connection is closed.");
  expect(storeError(error, true)).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: "unknown" });
});
