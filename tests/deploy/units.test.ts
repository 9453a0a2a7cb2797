/** The units of deploy/systemd: systemd reads them without a complaint, and finds little that they could do. */
import { spawnSync } from "node:child_process";
import { cp, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, it } from "vitest";
import { describeWherePossible } from "../support/engines/postgres.js";
import { endAll } from "../support/processes/cli.js";
import { temporaryFolder } from "../support/processes/processes.js";
import { argumentsOf, optionsOf } from "./arguments.js";

const UNITS = fileURLToPath(new URL("../../deploy/systemd/", import.meta.url));
/** By systemd's scale from 0 to 10. Its own services have from 1 to 9. */
const MOST_EXPOSED = 1.5;

afterEach(() => endAll());

const analyze = (...args: string[]) => {
  const { stdout, stderr, status } = spawnSync("systemd-analyze", args, { encoding: "utf8" });
  return { text: stdout + stderr, status };
};
const without = spawnSync("systemd-analyze", ["--version"]).error ? "no systemd-analyze" : null;

describeWherePossible(without, "deploy/systemd", () => {
  it("has units that systemd accepts and that are exposed to little", async () => {
    const names = await readdir(UNITS);
    expect(names.sort()).toEqual(["leasehold-server.service", "leasehold-worker@.service"]);
    const folder = await temporaryFolder();
    for (const name of names) {
      const unit = join(folder, name);
      await cp(join(UNITS, name), unit);
      // The program is not installed here. systemd checks that it exists.
      const text = await readFile(unit, "utf8");
      await writeFile(unit, text.replace("=/usr/local/bin/leasehold ", `=${process.execPath} `));
      expect(analyze("verify", unit), name).toEqual({ text: "", status: 0 });
      const { text: report } = analyze("security", "--offline=true", unit);
      const [, exposure] = /exposure level for .*: ([\d.]+)/.exec(report) ?? [];
      expect(Number(exposure), report).toBeLessThanOrEqual(MOST_EXPOSED);
    }
  });
});

it("the units give our commands only options that they have", async () => {
  for (const name of await readdir(UNITS)) {
    const [, line = ""] =
      /^ExecStart=\S+ (.*)$/m.exec(await readFile(join(UNITS, name), "utf8")) ?? [];
    for (const [command = "", ...rest] of argumentsOf(line.split(" "))) {
      const options = rest.filter((text) => text.startsWith("--"));
      expect(options).not.toEqual([]);
      expect(await optionsOf(command), name).toEqual(expect.arrayContaining(options));
    }
  }
});
