/** Shares a run as a link or exports it as a test. */
import { Button, CopyButton, Dialog, Icon } from "leasehold-ui";
import { useEffect, useState } from "react";
import { describeAction, exportTest } from "./playground/index.js";
import { linkTo } from "./run-in-url.js";
import { useCalmView, usePlayer } from "./use-player.js";

const SHOWN_MS = 1_800;

export function ShareButton() {
  const player = usePlayer();
  const [said, setSaid] = useState<string | null>(null);
  const share = async () => {
    const link = linkTo(player.view().playground.script);
    try {
      await navigator.clipboard.writeText(link);
      setSaid("Link copied");
    } catch {
      // The clipboard needs permission and a page served over TLS.
      setSaid("Copy it from the address bar");
    }
    setTimeout(() => setSaid(null), SHOWN_MS);
  };
  return (
    <Button onClick={() => void share()}>
      <Icon name={said === null ? "link" : "check"} />
      <span aria-live="polite">{said ?? "Share"}</span>
    </Button>
  );
}

export function ExportButton() {
  const player = usePlayer();
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button
        onClick={() => {
          player.pause();
          setOpen(true);
        }}
      >
        <Icon name="code" /> <span className="max-sm:sr-only">Export</span>
      </Button>
      <Dialog
        open={open}
        onOpenChange={setOpen}
        wide
        title="Export this run as a test"
        description="The test replays the run up to the shown moment and expects the same grants and refused writes."
      >
        <Exported />
      </Dialog>
    </>
  );
}

function Exported() {
  const player = usePlayer();
  const { playground, frame } = useCalmView();
  const [text, setText] = useState<string | null>(null);
  const [atMs] = useState(frame.atMs > 0 ? frame.atMs : player.view().endMs);
  const { script } = playground;
  useEffect(() => {
    let wanted = true;
    void exportTest(script, atMs).then((made) => {
      if (wanted) setText(made);
    });
    return () => {
      wanted = false;
    };
  }, [script, atMs]);
  if (text === null) return <p className="text-sm text-muted">Generating…</p>;
  return (
    <div className="grid gap-3">
      {script.actions.length > 0 && (
        <ul aria-label="Your actions" className="flex flex-wrap gap-1.5 text-xs">
          {script.actions.map(({ atMs: actionMs, action }, index) => (
            <li key={index} className="rounded-full bg-sunken px-2 py-0.5">
              {describeAction(action)}{" "}
              <span className="text-muted tabular">{(actionMs / 1_000).toFixed(1)} s</span>
            </li>
          ))}
        </ul>
      )}
      <Code text={text} />
      <div className="flex justify-end gap-2">
        <CopyButton text={text} label="Copy" />
        <Button small onClick={() => download(text, `${script.scenario}.test.ts`)}>
          Download
        </Button>
      </div>
    </div>
  );
}

function Code({ text }: { readonly text: string }) {
  return (
    <pre
      tabIndex={0}
      role="region"
      aria-label="Exported test"
      className="max-h-96 overflow-auto rounded-lg bg-sunken p-3 font-mono text-xs leading-relaxed"
    >
      {text}
    </pre>
  );
}

function download(text: string, name: string): void {
  const href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  Object.assign(document.createElement("a"), { href, download: name }).click();
  URL.revokeObjectURL(href);
}
