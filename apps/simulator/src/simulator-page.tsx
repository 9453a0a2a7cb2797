/** The simulator: processes contend for a lease. The real code runs on simulated clocks and a simulated network. */
import { Button, Dialog, Icon, IconButton, PageHead, useShortcuts } from "leasehold-ui";
import { Tabs } from "radix-ui";
import { type ReactNode, useEffect, useState, useSyncExternalStore } from "react";
import { Compare } from "./compare.js";
import { ConsoleLink } from "./console-link.js";
import { CountersStrip } from "./counters.js";
import { Experiments } from "./experiments.js";
import { Invariants } from "./invariants.js";
import { KEYS, KeysHelp } from "./keys-help.js";
import { LogCard } from "./log.js";
import { Player, SPEEDS } from "./player.js";
import { captionOf, newScript, SCENARIOS, type ScenarioId } from "./playground/index.js";
import { Quiz } from "./quiz.js";
import { readRun, writeRun } from "./run-in-url.js";
import { Scenarios } from "./scenarios.js";
import { ExportButton, ShareButton } from "./share.js";
import { STAGE_ID, Stage } from "./stage.js";
import { StoreActions } from "./store-card.js";
import { ThemeButton } from "./theme-button.js";
import { Transport } from "./transport.js";
import { Tune } from "./tune.js";
import { PlayerContext, useCalmView, usePlayer } from "./use-player.js";

/** @param embedded shows only the scenarios, the stage and the controls, for a frame of another page */
export function SimulatorPage({ embedded }: { readonly embedded: boolean }) {
  const [{ player, complaint: first }] = useState(() => {
    const { script, complaint } = readRun();
    return { player: new Player(script), complaint };
  });
  const [complaint, setComplaint] = useState(first);
  useEffect(() => {
    const follow = () => {
      const { script, complaint } = readRun();
      player.load(script);
      setComplaint(complaint);
    };
    window.addEventListener("hashchange", follow);
    return () => {
      window.removeEventListener("hashchange", follow);
      player.close();
    };
  }, [player]);
  return (
    <PlayerContext value={player}>
      <Page {...{ embedded, complaint }} dismiss={() => setComplaint(null)} />
    </PlayerContext>
  );
}

/** Tailwind's xl, from which the page has two columns. */
const WIDE = matchMedia("(min-width: 80rem)");
const isWide = () => WIDE.matches;
function followWide(listener: () => void): () => void {
  WIDE.addEventListener("change", listener);
  return () => WIDE.removeEventListener("change", listener);
}

interface PageProps {
  readonly embedded: boolean;
  readonly complaint: string | null;
  readonly dismiss: () => void;
}

function Page({ embedded, complaint, dismiss }: PageProps) {
  const player = usePlayer();
  const { playground, refusal } = useCalmView();
  const { script } = playground;
  const [help, setHelp] = useState(false);
  const wide = useSyncExternalStore(followWide, isWide);
  useEffect(() => {
    // Keep an invalid URL until the user does something.
    if (complaint === null) writeRun(script);
  }, [script, complaint]);
  const choose = (id: ScenarioId) => {
    dismiss();
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    player.load(newScript(id), { play: !calm });
  };
  const faster = (by: number) => {
    const at = SPEEDS.findIndex((each) => each === player.view().speed) + by;
    const speed = SPEEDS[at];
    if (speed !== undefined) player.setSpeed(speed);
  };
  useShortcuts({
    [KEYS.play]: player.toggle,
    [KEYS.stepOn]: () => void player.stepOn(),
    [KEYS.stepBack]: () => void player.stepBack(),
    [KEYS.rewind]: () => void player.seek(0),
    [KEYS.later]: () => void player.move(1_000),
    [KEYS.earlier]: () => void player.move(-1_000),
    [KEYS.faster]: () => faster(1),
    [KEYS.slower]: () => faster(-1),
    [KEYS.help]: () => setHelp(true),
    ...Object.fromEntries(SCENARIOS.map(({ id }, index) => [String(index + 1), () => choose(id)])),
  });
  const stage = (
    <div id={STAGE_ID} className="scroll-mt-16 overflow-hidden rounded-xl border bg-surface">
      <Caption />
      <Stage compact={embedded} />
      {!embedded && <QuickActions />}
      <Transport />
    </div>
  );
  if (embedded) {
    return (
      <>
        {refusal !== null && <Complaint>{refusal}</Complaint>}
        <Scenarios choose={choose} wrap />
        <div className="mt-2">{stage}</div>
      </>
    );
  }
  return (
    <div className="mx-auto max-w-[92rem]">
      <PageHead
        title="Simulator"
        about={
          <span className="max-sm:hidden">
            Five processes contend for one lease. They run the library’s real code on clocks that
            you can stop, turn back and skew.
          </span>
        }
      >
        <IconButton label="Keyboard shortcuts" onClick={() => setHelp(true)}>
          <Icon name="keyboard" />
        </IconButton>
        <ExportButton />
        <ShareButton />
        <ThemeButton />
        <ConsoleLink />
      </PageHead>
      {complaint !== null && (
        <Complaint dismiss={dismiss}>
          This link is not a valid run: {complaint} The first scenario is shown instead.
        </Complaint>
      )}
      {refusal !== null && <Complaint>{refusal}</Complaint>}
      <Scenarios choose={choose} />
      <div className="mt-3 grid items-start gap-4 xl:grid-cols-[minmax(0,1fr)_23rem]">
        <div className="grid min-w-0 gap-4 xl:sticky xl:top-4">
          {stage}
          {!wide && <LogCard />}
          <Invariants />
          <CountersStrip />
        </div>
        <div className="grid min-w-0 gap-4">
          {wide && <LogCard />}
          <Panels />
        </div>
      </div>
      <Dialog open={help} onOpenChange={setHelp} title="Keyboard shortcuts of the simulator">
        <KeysHelp />
      </Dialog>
    </div>
  );
}

function Complaint({
  children,
  dismiss,
}: {
  readonly children: ReactNode;
  readonly dismiss?: () => void;
}) {
  return (
    <div
      role="alert"
      className="mb-3 flex items-start gap-3 rounded-xl border border-warn bg-warn-soft px-4 py-3 text-sm text-warn"
    >
      <span className="mt-0.5">
        <Icon name="warning" />
      </span>
      <p className="flex-1">{children}</p>
      {dismiss && (
        <Button small look="quiet" className="text-warn!" onClick={dismiss}>
          Dismiss
        </Button>
      )}
    </div>
  );
}

/** The scenario's caption for the current moment. */
function Caption() {
  const { playground, frame } = useCalmView();
  const { scenario } = playground;
  const { index, text } = captionOf(scenario, frame);
  return (
    <div className="border-b px-3 py-3 sm:px-5">
      <div className="flex items-center justify-between gap-3">
        <h2 className="text-xs font-medium text-muted">{scenario.title}</h2>
        <span aria-hidden="true" className="flex gap-1">
          {scenario.captions.map((caption, at) => (
            <span
              key={caption.text}
              className={`h-1 w-4 rounded-full ${at <= index ? "bg-accent" : "bg-sunken"}`}
            />
          ))}
        </span>
      </div>
      <p className="mt-1 min-h-[2lh] text-base leading-normal text-pretty" aria-live="polite">
        {text}
      </p>
    </div>
  );
}

/** The store's actions on a phone, where its card has no room for them. */
function QuickActions() {
  const { frame } = useCalmView();
  return (
    <div className="flex gap-2 border-t px-3 py-2 sm:hidden">
      <StoreActions store={frame.store} className="flex-1" />
    </div>
  );
}

const PANELS = [
  { id: "experiments", name: "Learn", content: Experiments },
  { id: "tune", name: "Tune", content: Tune },
  { id: "compare", name: "Compare", content: Compare },
  { id: "quiz", name: "Quiz", content: Quiz },
] as const;

function Panels() {
  return (
    <Tabs.Root defaultValue="experiments" className="rounded-xl border bg-surface">
      <Tabs.List aria-label="Panels" className="flex gap-1 border-b px-2 pt-2">
        {PANELS.map(({ id, name }) => (
          <Tabs.Trigger
            key={id}
            value={id}
            className="-mb-px flex-1 border-b-2 border-transparent px-2 pt-1 pb-2 text-sm text-muted hover:text-ink data-[state=active]:border-accent data-[state=active]:font-medium data-[state=active]:text-ink"
          >
            {name}
          </Tabs.Trigger>
        ))}
      </Tabs.List>
      {PANELS.map(({ id, content: Content }) => (
        <Tabs.Content key={id} value={id} className="p-4 focus-visible:-outline-offset-2">
          <Content />
        </Tabs.Content>
      ))}
    </Tabs.Root>
  );
}
