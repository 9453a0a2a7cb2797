// What an installation of a package brings along, as a CycloneDX document. npm lists a workspace together with its optional
// peers, and names the root of the repository as the subject.
import { execFileSync } from "node:child_process";
import { readJson } from "./facts.js";

/**
 * Of the versions of package-lock.json.
 * @param {string} name of a published package
 */
export function sbomOf(name) {
  const args = ["sbom", "--sbom-format", "cyclonedx", "--workspace", `packages/${name}`];
  const listed = JSON.parse(execFileSync("npm", args, { encoding: "utf8", maxBuffer: 1e8 }));
  const installed = installedBy(readJson("package-lock.json").packages);
  const components = new Map(listed.components.map((one) => [one["bom-ref"], one]));
  const edges = new Map(listed.dependencies.map(({ ref, dependsOn }) => [ref, dependsOn]));
  const subject = listed.components.find((one) => one.name === name);
  /** @type {Map<string, string[]>} */
  const reached = new Map();
  const next = [subject["bom-ref"]];
  for (let ref = next.pop(); ref !== undefined; ref = next.pop()) {
    if (reached.has(ref)) continue;
    const { name: of, version } = components.get(ref);
    const own = installed.get(`${of}@${version}`);
    const needs = (edges.get(ref) ?? []).filter((other) => own.has(components.get(other)?.name));
    reached.set(ref, needs);
    next.push(...needs);
  }
  return {
    ...listed,
    metadata: { ...listed.metadata, component: subject },
    components: listed.components.filter((one) => one !== subject && reached.has(one["bom-ref"])),
    dependencies: [...reached].map(([ref, dependsOn]) => ({ ref, dependsOn })),
  };
}

/** The names that are installed with each package, by its name and version: not its peers. */
function installedBy(packages) {
  return new Map(
    Object.entries(packages).map(([path, { version, dependencies, optionalDependencies }]) => [
      `${path.replace(/^packages\/|.*node_modules\//, "")}@${version}`,
      new Set(Object.keys({ ...dependencies, ...optionalDependencies })),
    ]),
  );
}
