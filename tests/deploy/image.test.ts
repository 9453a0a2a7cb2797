/**
 * The image of deploy/image, built and run by Debian's buildah, without a daemon. Base images can't be fetched everywhere,
 * so its base is made of this machine's Node.js and the libraries and programs that it needs.
 */
import { execFile, spawnSync } from "node:child_process";
import { cp, mkdir, readFile, realpath, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeWherePossible } from "../support/engines/postgres.js";
import { endAll, temporaryFolder } from "../support/processes/processes.js";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const BASE = "localhost/node-of-this-machine";
/** What Dockerfile and npm call. */
const PROGRAMS = ["sh", "env", "ls", "mkdir", "ln", "install", "chmod", "cat", "rm", "cp", "id"];
const LIBRARIES = ["libc6", "libgcc-s1", "libstdc++6"];
const CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt";
const BUILD_MS = 900_000;

const missing =
  process.env["TEST_FULL"] !== "1"
    ? "it takes minutes: TEST_FULL=1"
    : spawnSync("buildah", ["--version"]).error
      ? "no buildah: apt-get install buildah"
      : null;

describeWherePossible(missing, "the image", () => {
  let storage: string[];
  const buildah = async (...args: string[]) =>
    (await run("buildah", [...storage, ...args], { maxBuffer: 1e8 })).stdout.trim();
  /** What a shell in a new container of the image prints. */
  const inside = async (script: string) => {
    const container = await buildah("from", "localhost/leasehold");
    return buildah("run", "--isolation", "chroot", container, "--", "sh", "-c", script);
  };

  beforeAll(async () => {
    const folder = await temporaryFolder();
    storage = [
      "--root",
      `${folder}/images`,
      "--runroot",
      `${folder}/run`,
      "--storage-driver",
      "vfs",
    ];
    await makeBase(join(folder, "base"));
    const context = join(folder, "context");
    await mkdir(context);
    const { stdout } = await run("git", ["ls-files", "-z", "-co", "--exclude-standard"], {
      cwd: ROOT,
    });
    for (const path of stdout.split("\0").filter(Boolean)) {
      await cp(join(ROOT, path), join(context, path), { recursive: true }).catch(() => {});
    }
    const base = await buildah("from", "scratch");
    await buildah("copy", "-q", base, join(folder, "base"), "/");
    const path = "PATH=/usr/local/bin:/usr/bin:/bin";
    await buildah("config", "--env", path, "--env", `NODE_EXTRA_CA_CERTS=${CERTIFICATES}`, base);
    await buildah("commit", "-q", base, BASE);
    const file = join(context, "deploy/image/Dockerfile");
    const argument = `NODE_IMAGE=${BASE}`;
    await buildah(
      "build",
      "--isolation",
      "chroot",
      "--format",
      "docker",
      "--build-arg",
      argument,
      "-f",
      file,
      "-t",
      "leasehold",
      context,
    );
  }, BUILD_MS);
  afterAll(() => endAll());

  it("says what it is, who it runs as, and how one asks for its health", async () => {
    const inspected = JSON.parse(
      await buildah("inspect", "--type", "image", "localhost/leasehold"),
    );
    const { config } = inspected.Docker;
    expect(config).toMatchObject({
      User: "65532:65532",
      Entrypoint: ["leasehold"],
      Volumes: { "/var/lib/leasehold": {} },
      Healthcheck: { Test: ["CMD", "node", "/app/health.js"] },
      Labels: {
        "leasehold.sbom": "/app/sbom.cdx.json",
        "org.opencontainers.image.licenses": "MIT",
      },
    });
  });

  it("lists what it holds, the drivers among it and no tool of ours", async () => {
    const { components } = JSON.parse(await inside("cat /app/sbom.cdx.json"));
    const names = components.map(({ name }: { name: string }) => name);
    expect(names).toEqual(
      expect.arrayContaining(["leasehold", "leasehold-server", "pg", "ioredis"]),
    );
    expect(names).not.toContain("vitest");
  });

  it("serves as a user without rights, is healthy then, and exits with 0 at SIGTERM", async () => {
    const script = `id -u; leasehold --version
      leasehold serve --host 0.0.0.0 --require-keys --port 4077 2>log & server=$!
      export PORT=4077
      until node /app/health.js; do node -e 'setTimeout(() => {}, 100)'; done
      kill $server; wait $server; echo "exit $?"; ls -a /var/lib/leasehold`;
    const { version } = JSON.parse(
      await readFile(join(ROOT, "packages/leasehold/package.json"), "utf8"),
    );
    const lines = (await inside(script)).split("\n");
    expect(lines.slice(0, 2)).toEqual(["65532", version]);
    expect(lines).toEqual(expect.arrayContaining(["exit 0", ".leasehold"]));
  });
});

/** A file system with Node.js and npm, and little else. */
async function makeBase(folder: string): Promise<void> {
  const copy = async (from: string, to = from) => {
    await mkdir(dirname(join(folder, to)), { recursive: true });
    await cp(from, join(folder, to), { dereference: true, recursive: true });
  };
  const which = async (name: string) => (await run("which", [name])).stdout.trim();
  for (const name of PROGRAMS) await copy(await which(name), `/usr/bin/${name}`);
  await copy(process.execPath, "/usr/local/bin/node");
  const owned = (await run("dpkg", ["-L", ...LIBRARIES])).stdout.split("\n");
  for (const library of owned) if (/\.so(\.|$)/.test(library)) await copy(library);
  const programs = [process.execPath, ...(await Promise.all(PROGRAMS.map(which)))];
  const linked = await Promise.all(programs.map((program) => run("ldd", [program])));
  const used = linked.flatMap(({ stdout }) => stdout.match(/\/[^ ]+/g) ?? []);
  for (const library of new Set(used)) await copy(library);
  const npm = dirname(dirname(await realpath(await which("npm"))));
  await copy(npm, "/usr/local/lib/node_modules/npm");
  await symlink("../lib/node_modules/npm/bin/npm-cli.js", join(folder, "usr/local/bin/npm"));
  for (const file of ["/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/hosts", CERTIFICATES])
    await copy(file);
  for (const link of ["bin/sh", "bin/env"]) {
    await mkdir(dirname(join(folder, link)), { recursive: true });
    await cp(await which(link.slice(4)), join(folder, link), { dereference: true });
  }
  await writeFile(join(folder, "etc/passwd"), "root:x:0:0::/root:/bin/sh\n");
  await writeFile(join(folder, "etc/group"), "root:x:0:\n");
  for (const name of ["tmp", "proc", "sys", "dev", "root"]) {
    await mkdir(join(folder, name), { recursive: true, mode: name === "tmp" ? 0o1777 : 0o755 });
  }
}
