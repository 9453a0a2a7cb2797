/** What `run` and `elect` report about their own work, on stderr: sentences, or JSON lines with --json. */
export type Notice =
  /** The store is unavailable, and the command tries again. */
  | { readonly event: "retrying"; readonly message: string }
  /** The lease is held, and the command starts. */
  | {
      readonly event: "acquired";
      readonly resource: string;
      readonly holder: string;
      /** Null if the store has no tokens. */
      readonly token: number | null;
    }
  /** The lease is lost, and the command is stopped. */
  | { readonly event: "stopping"; readonly resource: string; readonly message: string }
  /** No process could be started. */
  | { readonly event: "cannotStart"; readonly message: string };

export type Notify = (notice: Notice) => void;

export function notifier(json: boolean | undefined): Notify {
  return (notice) => {
    const line = json ? JSON.stringify(notice) : sentenceOf(notice);
    if (line !== null) process.stderr.write(`${line}\n`);
  };
}

function sentenceOf(notice: Notice): string | null {
  switch (notice.event) {
    case "retrying":
      return `leasehold: ${notice.message}; retrying`;
    // The command's own output follows, which needs no introduction.
    case "acquired":
      return null;
    case "stopping":
      return `leasehold: ${notice.message}; stopping the command`;
    case "cannotStart":
      return `leasehold: cannot start the command: ${notice.message}`;
  }
}
