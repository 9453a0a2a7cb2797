/** What a file of Docker Compose says, for a machine without containers: each service as a program with an address. */
import { dirname, join, resolve } from "node:path";
import { parse } from "yaml";

export type Condition = "service_started" | "service_healthy" | "service_completed_successfully";

export interface Mount {
  /** On this machine. */
  readonly from: string;
  /** In the container. */
  readonly to: string;
}

export interface Service {
  readonly name: string;
  readonly image: string;
  /** Replaces the program of the image. */
  readonly command: readonly string[];
  readonly hasEntrypoint: boolean;
  readonly environment: Readonly<Record<string, string>>;
  readonly mounts: readonly Mount[];
  readonly dependsOn: Readonly<Record<string, Condition>>;
  /** Ends by itself: others wait for that, or it is started again only when it fails. */
  readonly isJob: boolean;
}

interface Written {
  readonly image: string;
  readonly command?: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly depends_on?: Readonly<Record<string, { readonly condition: Condition }>>;
  readonly restart?: string;
}

/**
 * @param file its path, from which relative ones count
 * @param volumes the folder in which named volumes are folders
 */
export function servicesOf(text: string, file: string, volumes: string): Service[] {
  const { services } = parse(text, { merge: true }) as { services: Record<string, Written> };
  return Object.entries(services).map(([name, service]) => ({
    name,
    image: service.image,
    command: service.command ?? [],
    hasEntrypoint: service.entrypoint === undefined,
    environment: service.environment ?? {},
    mounts: (service.volumes ?? []).map((volume) => {
      const [from = "", to = ""] = volume.split(":");
      return {
        from: from.startsWith(".") ? resolve(dirname(file), from) : join(volumes, from),
        to,
      };
    }),
    dependsOn: Object.fromEntries(
      Object.entries(service.depends_on ?? {}).map(([other, { condition }]) => [other, condition]),
    ),
    isJob: service.restart === "on-failure",
  }));
}

/** Services in an order in which each comes after those that it depends on. */
export function inOrder(services: readonly Service[]): Service[] {
  const ordered: Service[] = [];
  const add = (service: Service | undefined, below: readonly string[]) => {
    if (!service || ordered.includes(service)) return;
    if (below.includes(service.name)) throw new Error(`${service.name} depends on itself`);
    for (const name of Object.keys(service.dependsOn)) {
      add(
        services.find((other) => other.name === name),
        [...below, service.name],
      );
    }
    ordered.push(service);
  };
  for (const service of services) add(service, []);
  return ordered;
}

export interface Places {
  /** Where a service listens, by its name: `127.0.77.3`, or with a port that takes the place of its own. */
  readonly addresses: ReadonlyMap<string, string>;
  readonly mounts: readonly Mount[];
}

/** The text with the names of services, the address of all interfaces and the paths of a container in it replaced. */
export function localized(text: string, own: string, { addresses, mounts }: Places): string {
  const names = [...addresses].reduce(
    (changed, [name, address]) =>
      changed.replaceAll(new RegExp(`(?<![\\w.-])${name}:(\\d+)`, "g"), (_, port: string) =>
        address.includes(":") ? address : `${address}:${port}`,
      ),
    text.replaceAll("0.0.0.0", own),
  );
  return mounts.reduce(
    (changed, { from, to }) =>
      changed.replaceAll(new RegExp(`(?<![\\w/.-])${to}(?![\\w-])`, "g"), from),
    names,
  );
}
