/** PostgreSQL by TLS: verified, with a client's certificate, and refused. */
import { chmod, chown, copyFile, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import {
  describePostgres,
  type PostgresServer,
  startPostgres,
} from "../support/engines/postgres.js";
import { query } from "../support/engines/postgres-copies.js";
import { findEngine } from "../support/engines/postgres-engine.js";
import { checkBuild, leasehold } from "../support/processes/cli.js";
import { endAll } from "../support/processes/processes.js";
import { type Authority, newAuthority } from "../support/server/certificates.js";

/** The user `app` has a password, `certified` a certificate; neither may come without TLS. */
const ACCESS = `
host    all postgres  127.0.0.1/32 scram-sha-256
hostssl all app       all          scram-sha-256
hostssl all certified all          cert
`;

describePostgres("a PostgreSQL server that demands TLS", () => {
  let server: PostgresServer;
  let folder: string;
  let authority: Authority;
  let other: Authority;
  let client: { certificate: string; key: string };
  beforeAll(async () => {
    [authority, other] = await Promise.all([newAuthority(), newAuthority()]);
    const ofServer = await authority.sign("server", ["localhost"]);
    client = await authority.sign("certified");
    folder = await mkdtemp(join(tmpdir(), "leasehold-pgtls-"));
    const own = await stat(folder);
    const { uid = own.uid, gid = own.gid } = (await findEngine()).user;
    const file = async (name: string, fill: (path: string) => Promise<void>) => {
      const path = join(folder, name);
      await fill(path);
      await chmod(path, 0o600);
      await chown(path, uid, gid);
      return path;
    };
    const settings = {
      ssl: "on",
      ssl_cert_file: await file("server.crt", (path) => copyFile(ofServer.certificate, path)),
      ssl_key_file: await file("server.key", (path) => copyFile(ofServer.key, path)),
      ssl_ca_file: await file("ca.crt", (path) => copyFile(authority.certificate, path)),
      hba_file: await file("pg_hba.conf", (path) => writeFile(path, ACCESS)),
    };
    await chown(folder, uid, gid);
    server = await startPostgres({ settings });
    for (const role of ["app", "certified"]) {
      await query(server, `CREATE ROLE ${role} LOGIN SUPERUSER PASSWORD 'secret-of-${role}'`);
    }
  }, 60_000);
  afterAll(async () => {
    await server?.remove();
    await endAll();
    await rm(folder, { recursive: true, force: true });
  });

  const url = (user: string, host: string, parameters: Record<string, string>) =>
    `postgres://${user}@${host}:${server.port}/postgres?${new URLSearchParams(parameters)}`;
  const verified = () => ({ sslmode: "verify-full", sslrootcert: authority.certificate });

  async function expectServed(source: string): Promise<void> {
    const opened = await connect(source);
    const lease = await opened.acquire("r", { ttlMs: 60_000 });
    const sessions = await query<{ ssl: boolean }>(
      server,
      `SELECT DISTINCT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
       WHERE a.usename IN ('app', 'certified')`,
    );
    // Notifications too.
    expect(sessions).toEqual([{ ssl: true }]);
    await lease.release();
    await opened.close();
  }

  it("is reached with its authority, and its name is checked", async () => {
    await expectServed(url("app:secret-of-app", "localhost", verified()));
    await expect(connect(url("app:secret-of-app", "127.0.0.1", verified()))).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(
        /its certificate is not for the host that the URL names .*; name a host of the certificate/,
      ) as string,
    });
  });

  it.each(["require", "prefer", "verify-ca"])(
    "is verified by sslmode=%s too, without a warning of the driver",
    async (sslmode) => {
      const warnings: string[] = [];
      const onWarning = ({ message }: Error) => warnings.push(message);
      process.on("warning", onWarning);
      await expectServed(url("app:secret-of-app", "localhost", { ...verified(), sslmode }));
      await expect(
        connect(url("app:secret-of-app", "localhost", { sslmode })),
      ).rejects.toMatchObject({ code: "STORE_MISCONFIGURED" });
      process.off("warning", onWarning);
      expect(warnings.join()).not.toContain("SSL modes");
    },
  );

  it("is named by a command in JSON alone, without a warning of the driver", async () => {
    checkBuild();
    const store = (more: Record<string, string>) =>
      url("app:secret-of-app", "localhost", { sslmode: "require", ...more });
    await expectServed(store({ sslrootcert: authority.certificate }));
    const listed = ["ls", "--json", "--store"];
    const found = await leasehold([...listed, store({ sslrootcert: authority.certificate })]);
    expect(found).toMatchObject({ code: 0, stderr: "" });
    const refused = await leasehold([...listed, store({ sslrootcert: "/none/such" })]);
    expect(refused.code).toBe(78);
    expect(JSON.parse(refused.stderr)).toMatchObject({
      error: {
        code: "STORE_MISCONFIGURED",
        message: expect.stringContaining("/none/such") as string,
      },
    });
  });

  it("is not trusted by the authorities of the system", async () => {
    const opening = connect(url("app:secret-of-app", "localhost", { sslrootcert: "system" }));
    await expect(opening).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(/its certificate is not trusted .*\?sslrootcert=/) as string,
    });
  });

  it("is not trusted with another authority, or none, and no message has the password", async () => {
    for (const authorities of [{ sslrootcert: other.certificate }, {}]) {
      const opening = connect(
        url("app:secret-of-app", "localhost", { sslmode: "verify-full", ...authorities }),
      );
      const error = await opening.catch((reason: Error) => reason);
      expect(error).toMatchObject({
        code: "STORE_MISCONFIGURED",
        message: expect.stringMatching(/its certificate is not trusted/) as string,
      });
      expect(String((error as Error).stack)).not.toContain("secret-of-app");
    }
  });

  it("takes the certificate of a client in place of a password", async () => {
    const { certificate: sslcert, key: sslkey } = client;
    await expectServed(url("certified", "localhost", { ...verified(), sslcert, sslkey }));
  });

  it("refuses a client without TLS, and says so", async () => {
    const error = await connect(url("app:secret-of-app", "localhost", {})).catch(
      (reason: Error) => reason,
    );
    expect(error).toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(/no pg_hba.conf entry/) as string,
    });
  });

  it("is one of several, of which another is down", async () => {
    const several = url("app:secret-of-app", "localhost:1,localhost", verified());
    await expectServed(several);
  });
});
