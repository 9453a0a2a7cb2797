// The order in which the pages are read. A page without a place here fails the check.

/** @typedef {{ text: string, pages: Record<string, string> }} Part */

/** Titles by path, without `.md`. @type {Part[]} */
export const PARTS = [
  {
    text: "Start",
    pages: {
      "start/index": "What Leasehold is",
      "start/first-lease": "Your first lease",
      "start/first-task": "Your first task",
      "start/first-election": "Your first election",
    },
  },
  {
    text: "Learn",
    pages: {
      "learn/leases": "What a lease is",
      "learn/fencing": "Why a lock is not enough",
      "learn/trusted-time": "Trusted time",
      "learn/choosing-a-ttl": "Choosing a TTL",
      "learn/unknown-outcomes": "Unknown outcomes",
      "learn/once": "Once, and one at a time",
      "learn/tasks": "Tasks as rows with leases",
      "learn/idempotency": "Idempotency",
    },
  },
  {
    text: "Plan and review",
    pages: {
      "choose/index": "Do I need a lock?",
      "choose/mistakes": "Common mistakes",
      "choose/failure-modes": "Failure modes",
      "choose/checklist": "Production checklist",
    },
  },
  {
    text: "Guides",
    pages: {
      "guides/nightly-job": "Run a nightly job once",
      "guides/leader": "Elect a leader, with failover",
      "guides/outbox": "Dispatch an outbox",
      "guides/lock-service": "Locks for other languages",
      "guides/billing-close": "Close a billing period safely",
      "guides/task-processor": "Generate and process tasks",
      "guides/shards": "Split work into shards",
      "guides/writing-a-store": "Write a store for your engine",
      "guides/web-framework": "Background work in a web framework",
      "guides/orm-transaction": "Enqueue in your ORM's transaction",
      "guides/runtimes": "Serverless, Bun and Deno",
      "guides/testing": "Test code that uses leases",
      "guides/schedules-and-keys": "Schedules and concurrency keys",
      "guides/migrating": "Migrate from another library",
    },
  },
  {
    text: "In depth",
    pages: {
      coordination: "Coordination",
      schedules: "Schedules",
      "concurrency-keys": "Concurrency keys",
      limits: "Limits and rates",
      contracts: "Contracts",
      transactions: "Transactions",
      cron: "Cron jobs",
      embedding: "The server in your app",
      "adding-a-store": "Adding a store",
      "compat-redlock": "Coming from node-redlock",
    },
  },
  {
    text: "Coming from the article",
    pages: {
      "articles/multi-instance": "Multi-instance environments",
      "articles/leader-loop": "Lease pattern in .NET",
      "articles/lock-service": "A distributed lock service",
      "articles/leader-election": "Lease-based leader election",
      "articles/lease-api": "Lease API",
    },
  },
  {
    text: "Operate",
    pages: {
      deploying: "Deploying",
      sizing: "Size, back up, fail over",
      upgrading: "Upgrading and stability",
      runbooks: "Runbooks",
      security: "Security",
      access: "Access",
      "tenant-limits": "What a tenant may use",
      audit: "The audit",
      observability: "Metrics and alerts",
      logs: "Logs",
      warnings: "Warnings",
      console: "The console",
    },
  },
  {
    text: "Reference",
    pages: {
      "reference/api/index": "API",
      guarantees: "Guarantees",
      cli: "Command line",
      http: "HTTP",
      "reference/http": "HTTP routes",
      configuration: "Configuration",
      errors: "Errors",
      glossary: "Glossary",
      faq: "Questions",
    },
  },
  {
    text: "Evidence",
    pages: {
      comparison: "Comparison",
      performance: "Performance",
      reliability: "Reliability",
      "model-checking": "Model checking",
      "bugs-found": "Bugs found",
    },
  },
];

/** Decisions have a list of their own; the reference is made by the build. */
export const APART = /^(decisions|reference)\//;
