/** The template of the button for App Platform. The platform itself is not here: its commands and files are checked. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { argumentsOf, optionsOf } from "./arguments.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

interface Component {
  readonly name: string;
  readonly dockerfile_path: string;
  readonly run_command: string;
  readonly envs: readonly { readonly key: string; readonly value: string }[];
}

it("names files that exist, variables of its database, and options that our commands have", async () => {
  const { spec } = parse(await readFile(join(ROOT, ".do/deploy.template.yaml"), "utf8")) as {
    spec: Record<string, Component[]>;
  };
  const { databases = [], services = [], workers = [], jobs = [] } = spec;
  const components = [...services, ...workers, ...jobs];
  expect(components.map(({ name }) => name)).toEqual(["server", "worker", "generator", "migrate"]);
  for (const { name, dockerfile_path: file, run_command: command, envs } of components) {
    expect(existsSync(join(ROOT, file)), file).toBe(true);
    for (const { value } of envs) {
      const [, of] = /^\$\{(\w+)\.(DATABASE_URL|CA_CERT)\}$/.exec(value) ?? [];
      expect(databases.map((database) => database.name)).toContain(of);
    }
    const [, line = ""] = /exec leasehold (.*)'$/.exec(command) ?? [];
    for (const [program = "", ...rest] of argumentsOf(line.split(" "))) {
      const options = rest.filter((text) => text.startsWith("--"));
      expect(await optionsOf(program), name).toEqual(expect.arrayContaining(options));
    }
  }
});
