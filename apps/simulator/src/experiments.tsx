/** Guided experiments: predict the outcome, run it, compare. */
import { Button, classNames, Icon } from "leasehold-ui";
import { useEffect, useState } from "react";
import { Choices, ProgressBar } from "./choices.js";
import { EXPERIMENTS, type Experiment, encodeScript } from "./playground/index.js";
import { forgetExperiment, observe, predict, useProgress } from "./progress.js";
import { STAGE_ID } from "./stage.js";
import { useCalmView, usePlayer } from "./use-player.js";

export function Experiments() {
  const { experiments } = useProgress();
  const isDone = ({ id }: Experiment) => typeof experiments[id]?.shown === "string";
  const [open, setOpen] = useState(
    () => (EXPERIMENTS.find((one) => !isDone(one)) ?? EXPERIMENTS[0])?.id,
  );
  const done = EXPERIMENTS.filter(isDone).length;
  return (
    <div className="grid gap-3">
      <ProgressBar done={done} of={EXPERIMENTS.length} name="Experiments done" />
      <ol className="grid gap-2">
        {EXPERIMENTS.map((experiment, index) => (
          <li key={experiment.id} className="overflow-hidden rounded-lg border">
            <h3>
              <button
                type="button"
                aria-expanded={open === experiment.id}
                onClick={() => setOpen(open === experiment.id ? undefined : experiment.id)}
                className="flex w-full items-center gap-2.5 px-3 py-2 text-left text-sm font-medium hover:bg-sunken"
              >
                <span
                  className={classNames(
                    "grid size-5 flex-none place-content-center rounded-full text-2xs",
                    isDone(experiment) ? "bg-accent text-accent-ink" : "bg-sunken text-muted",
                  )}
                >
                  {isDone(experiment) ? <Icon name="check" size={12} /> : index + 1}
                </span>
                {experiment.title}
                {isDone(experiment) && <span className="sr-only">done</span>}
              </button>
            </h3>
            {open === experiment.id && (
              <Guided
                experiment={experiment}
                next={() => setOpen(EXPERIMENTS[index + 1]?.id)}
                isLast={index === EXPERIMENTS.length - 1}
              />
            )}
          </li>
        ))}
      </ol>
    </div>
  );
}

function Guided({
  experiment,
  next,
  isLast,
}: {
  readonly experiment: Experiment;
  readonly next: () => void;
  readonly isLast: boolean;
}) {
  const { id, task, question, choices, untilMs, explanation } = experiment;
  const player = usePlayer();
  const { playground, frame, playing, scrubbing } = useCalmView();
  const kept = useProgress().experiments[id];
  const [running, setRunning] = useState<string | null>(null);
  // Only the experiment's own run, without further actions, shows the answer.
  const isOwn = running !== null && encodeScript(playground.script) === running;
  const shown = isOwn && !scrubbing ? experiment.shown(frame) : null;
  useEffect(() => {
    if (shown !== null) observe(id, shown);
  }, [id, shown]);
  const known = kept?.shown ?? null;
  const run = () => {
    const script = experiment.script();
    setRunning(encodeScript(script));
    player.load(script, { play: true, untilMs });
    // On a phone the stage is above the panel.
    document.getElementById(STAGE_ID)?.scrollIntoView({ block: "nearest" });
  };
  return (
    <div className="grid gap-3 border-t px-3 py-3">
      <p className="text-sm leading-relaxed text-muted">{task}</p>
      <Choices
        {...{ question, choices, right: known, disabled: isOwn && known === null }}
        chosen={kept?.predicted ?? null}
        choose={(choice) => predict(id, choice)}
      />
      {known === null && !isOwn && (
        <div className="flex items-center gap-3">
          <Button look="primary" small disabled={!kept} onClick={run}>
            <Icon name="play" size={14} /> Run experiment
          </Button>
          {!kept && <span className="text-xs text-muted">Choose an answer first.</span>}
        </div>
      )}
      {known === null && isOwn && (
        <div className="flex flex-wrap items-center gap-3 text-xs text-muted">
          <span className="tabular" role="status">
            {playing ? "Running" : "Paused"}: {Math.floor(frame.atMs / 1_000)} of{" "}
            {Math.round(untilMs / 1_000)} s
          </span>
          <Button
            small
            onClick={() => {
              player.pause();
              void player.seek(untilMs);
            }}
          >
            Skip to the end
          </Button>
        </div>
      )}
      {known !== null && kept && (
        <div role="status" className="grid gap-2">
          <p className="text-sm leading-relaxed">
            <b className={kept.predicted === known ? "text-ok" : "text-danger"}>
              {kept.predicted === known ? "Correct." : "Not quite."}
            </b>{" "}
            {explanation}
          </p>
          <div className="flex gap-2">
            {!isLast && (
              <Button small onClick={next}>
                Next experiment
              </Button>
            )}
            <Button
              small
              look="quiet"
              onClick={() => {
                setRunning(null);
                forgetExperiment(id);
              }}
            >
              Try again
            </Button>
          </div>
        </div>
      )}
    </div>
  );
}
