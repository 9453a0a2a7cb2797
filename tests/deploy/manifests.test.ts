/** The manifests of deploy/kubernetes: what kustomize makes of them fits the schemas of Kubernetes, and is restricted. */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { describeWherePossible } from "../support/engines/postgres.js";
import { leasehold } from "../support/processes/cli.js";
import { endAll, temporaryFolder } from "../support/processes/processes.js";
import { argumentsOf, optionsOf } from "./arguments.js";

const here = fileURLToPath(new URL(".", import.meta.url));
const MANIFESTS = fileURLToPath(new URL("../../deploy/kubernetes", import.meta.url));
const OVERLAYS = ["development", "production"];

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly data?: Record<string, string>;
  readonly spec?: Record<string, unknown>;
}

interface PodSpec {
  readonly securityContext: Record<string, unknown>;
  readonly automountServiceAccountToken?: boolean;
  readonly containers: readonly {
    readonly image: string;
    readonly args?: readonly string[];
    readonly securityContext: Record<string, unknown>;
    readonly resources: { readonly limits?: object; readonly requests?: object };
  }[];
}

const without = [
  ...(spawnSync("kubectl", ["version", "--client"]).error ? ["no kubectl"] : []),
  ...(existsSync(`${here}node_modules`) ? [] : ["no schemas: npm ci --prefix tests/deploy"]),
];

function rendered(overlay: string): Manifest[] {
  const text = execFileSync("kubectl", ["kustomize", `${MANIFESTS}/overlays/${overlay}`], {
    encoding: "utf8",
  });
  return parseAllDocuments(text).map((document) => document.toJS() as Manifest);
}

/** The module that has the schema, by the names of the packages. */
function schemaOf({ apiVersion, kind }: Manifest): string {
  const [group, version] = apiVersion.includes("/") ? apiVersion.split("/") : [null, apiVersion];
  if (group === null) return `kubernetes-models/${version}/${kind}`;
  const isOperator = group === "monitoring.coreos.com";
  const of = isOperator ? "@kubernetes-models/prometheus-operator" : "kubernetes-models";
  return `${of}/${group}/${version}/${kind}`;
}

/** kustomize breaks long lines of base64, which Kubernetes accepts and the schema does not. */
function joined(manifest: Manifest): Manifest {
  if (manifest.kind !== "Secret") return manifest;
  const data = Object.entries(manifest.data ?? {}).map(([name, text]) => [
    name,
    text.replace(/\s/g, ""),
  ]);
  return { ...manifest, data: Object.fromEntries(data) };
}

afterEach(() => endAll());

const podsOf = (manifests: readonly Manifest[]) =>
  manifests.flatMap(({ kind, metadata, spec }) => {
    const template = spec?.["template"] as { spec: PodSpec } | undefined;
    return template ? [{ name: `${kind} ${metadata.name}`, pod: template.spec }] : [];
  });

it("has handlers that a worker takes", async () => {
  const store = `pglite:${await temporaryFolder()}/store`;
  await leasehold(["enqueue", "hello", "--store", store]);
  const handlers = `${MANIFESTS}/base/handlers.js`;
  const { code } = await leasehold(["worker", "--once", "--store", store, "--handlers", handlers]);
  const { stdout } = await leasehold(["tasks", "--json", "--store", store]);
  expect([code, stdout]).toEqual([0, expect.stringContaining('"state":"done"')]);
});

describeWherePossible(without[0] ?? null, "deploy/kubernetes", () => {
  describe.each(OVERLAYS)("%s", (overlay) => {
    it("fits the schemas", async () => {
      for (const manifest of rendered(overlay)) {
        const module = await import(schemaOf(manifest));
        const Model = module[manifest.kind] as new (of: Manifest) => { validate(): void };
        expect(() => new Model(joined(manifest)).validate(), manifest.kind).not.toThrow();
      }
    });

    it("runs each pod without rights", () => {
      const pods = podsOf(rendered(overlay));
      expect(pods.length).toBeGreaterThanOrEqual(3);
      for (const { name, pod } of pods) {
        expect(pod.securityContext, name).toMatchObject({
          runAsNonRoot: true,
          seccompProfile: { type: "RuntimeDefault" },
        });
        for (const { securityContext, resources } of pod.containers) {
          expect(securityContext, name).toMatchObject({
            allowPrivilegeEscalation: false,
            capabilities: { drop: ["ALL"] },
          });
          expect(Object.keys(resources).sort(), name).toEqual(["limits", "requests"]);
        }
      }
    });

    it("gives our commands only options that they have", async () => {
      const ours = podsOf(rendered(overlay)).flatMap(({ pod }) =>
        pod.containers.filter(({ image }) => image.startsWith("leasehold:")),
      );
      expect(ours).toHaveLength(3);
      for (const { args = [] } of ours) {
        for (const [command = "", ...rest] of argumentsOf(args)) {
          const known = await optionsOf(command);
          const options = rest.filter((text) => text.startsWith("--"));
          expect(known, command).toEqual(expect.arrayContaining(options));
        }
      }
    });
  });
});
