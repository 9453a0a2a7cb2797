/** The commands as the help lists them. Each loads when it is used: the help needs none, and `run` nothing of `serve`. */
import type { Command } from "commander";

export interface CommandSummary {
  /** What follows its name in the list. A command without options only groups others. */
  readonly usage: string;
  readonly aliases?: readonly string[];
  readonly description: string;
  /** Imports what completes the command: its options, its own help and its action. */
  readonly load: () => Promise<(command: Command, loadAll: () => Promise<Command>) => void>;
}

/** In the order of the help. */
export const COMMANDS: Readonly<Record<string, CommandSummary>> = {
  demo: {
    usage: "[options]",
    description: "run a demo: a server, two generators, and workers that crash and stall",
    load: async () => (await import("./demo.js")).addDemo,
  },
  serve: {
    usage: "[options]",
    description: "serve leases, tasks and the state of the generator over HTTP",
    load: async () => (await import("./serve.js")).addServe,
  },
  worker: {
    usage: "[options]",
    description: "run tasks with the handlers of a file, until stopped",
    load: async () => (await import("./worker.js")).addWorker,
  },
  generate: {
    usage: "",
    aliases: ["generator"],
    description: "generate sample tasks: run an instance, or control all instances",
    load: async () => (await import("../generator/command.js")).addGenerate,
  },
  enqueue: {
    usage: "[options] <kind> [data]",
    description: "add tasks and print their ids",
    load: async () => (await import("./enqueue.js")).addEnqueue,
  },
  tasks: {
    usage: "[options] [id]",
    description: "list tasks, or show one with its attempts; retry, cancel or delete tasks",
    load: async () => (await import("./tasks.js")).addTasks,
  },
  schedules: {
    usage: "",
    description: "list schedules and their next fire times; declare, pause or run them",
    load: async () => (await import("./schedules.js")).addSchedules,
  },
  run: {
    usage: "[options] <resource> <command...>",
    aliases: ["lock"],
    description: "run a command while holding a lease, and stop it if the lease is lost",
    load: async () => (await import("./run.js")).addRun,
  },
  once: {
    usage: "[options] <key> <command...>",
    description: "run a command until it has succeeded once, on whatever machine",
    load: async () => (await import("./once/command.js")).addOnce,
  },
  acquire: {
    usage: "[options] <resource>",
    description: "acquire a lease for a script, and print what renew and release need",
    load: async () => (await import("./grants.js")).addAcquire,
  },
  renew: {
    usage: "[options] [lease-id]",
    description: "renew a lease from acquire",
    load: async () => (await import("./grants.js")).addRenew,
  },
  release: {
    usage: "[options] [lease-id]",
    description: "release a lease from acquire",
    load: async () => (await import("./grants.js")).addRelease,
  },
  elect: {
    usage: "[options] <name> [command...]",
    description: "stand for election and run a command while leading, or print who leads",
    load: async () => (await import("./elect.js")).addElect,
  },
  ls: {
    usage: "[options] [prefix]",
    description: "list leases, by resource",
    load: async () => (await import("./lease-views.js")).addLs,
  },
  show: {
    usage: "[options] <resource>",
    description: "show a resource: its current or last holder, earlier holders, and pauses",
    load: async () => (await import("./lease-views.js")).addShow,
  },
  why: {
    usage: "[options] <resource>",
    description: "explain why an acquire of a resource is refused now, or that it is free",
    load: async () => (await import("./why.js")).addWhy,
  },
  watch: {
    usage: "[options] [prefix]",
    description: "print changes of leases as they happen, until stopped",
    load: async () => (await import("./watch.js")).addWatch,
  },
  revoke: {
    usage: "[options] <resource>",
    aliases: ["force-unlock"],
    description: "end the lease of another holder",
    load: async () => (await import("./revoke.js")).addRevoke,
  },
  pause: {
    usage: "[options] [resource]",
    description: "stop granting a resource or a prefix, or the tasks of a queue",
    load: async () => (await import("./operator-actions.js")).addPause,
  },
  resume: {
    usage: "[options] [resource]",
    description: "end a pause",
    load: async () => (await import("./operator-actions.js")).addResume,
  },
  keys: {
    usage: "",
    description: "manage API keys: which clients may use a server, and what they may do",
    load: async () => (await import("./keys.js")).addKeys,
  },
  audit: {
    usage: "",
    description: "list, verify and export the audit log of operator actions",
    load: async () => (await import("./audit.js")).addAudit,
  },
  limits: {
    usage: "",
    description: "show and set the limits of a tenant",
    load: async () => (await import("./limits.js")).addLimits,
  },
  doctor: {
    usage: "[options]",
    description: "check the setup of a store, measure it, and recommend a TTL",
    load: async () => (await import("./doctor.js")).addDoctor,
  },
  migrate: {
    usage: "[options]",
    description: "migrate the tables of --store and --control to this version",
    load: async () => (await import("./migrate.js")).addMigrate,
  },
  completion: {
    usage: "[options] <shell>",
    description: "print a script that completes commands and options in your shell",
    load: async () => (await import("./completion.js")).addCompletion,
  },
};
