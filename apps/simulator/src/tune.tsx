/** The settings. At the start they configure the whole run; later a change is an action at that moment. */
import { Button, durationText } from "leasehold-ui";
import { useEffect, useId, useRef, useState } from "react";
import {
  fitSettings,
  longestRenewEveryMs,
  type NumberSetting,
  newScript,
  RANGES,
  type Settings,
} from "./playground/index.js";
import { useCalmView, usePlayer } from "./use-player.js";

const MAIN: readonly NumberSetting[] = ["ttlMs", "renewEveryMs", "latencyMs", "driftRatioPercent"];
const MORE: readonly NumberSetting[] = ["lossPercent", "writeEveryMs", "answerTimeoutMs"];

/** Debounce: a setting takes effect when its slider has rested for this long. */
const SETTLED_MS = 250;

export function Tune() {
  const player = usePlayer();
  const { frame, playground } = useCalmView();
  const { script } = playground;
  const atStart = frame.atMs === 0 && script.actions.length === 0;
  const begin = (settings: Settings) =>
    player.load(newScript(script.scenario, { seed: script.seed, settings: fitSettings(settings) }));
  const change = (setting: NumberSetting, value: number) => {
    if (atStart) begin({ ...script.settings, [setting]: value });
    else void player.perform({ kind: "set", setting, value });
  };
  const sliders = (names: readonly NumberSetting[]) =>
    names.map((name) => (
      <Slider
        key={name}
        setting={name}
        value={frame.settings[name]}
        max={name === "renewEveryMs" ? longestRenewEveryMs(frame.settings) : RANGES[name].max}
        onChange={(value) => change(name, value)}
      />
    ));
  return (
    <div className="grid gap-4">
      <p className="text-xs text-muted">
        {atStart
          ? "These settings apply to the whole run."
          : "The run has started: changes apply from now on, and to a leader's lease from its next term."}
      </p>
      {sliders(MAIN)}
      <details className="group">
        <summary className="cursor-pointer text-sm font-medium text-muted hover:text-ink">
          More settings
        </summary>
        <div className="mt-3 grid gap-4">
          {sliders(MORE)}
          <Flags begin={begin} />
        </div>
      </details>
      {!atStart && (
        <Button small className="justify-self-start" onClick={() => begin(frame.settings)}>
          Restart with these settings
        </Button>
      )}
    </div>
  );
}

function Flags({ begin }: { readonly begin: (settings: Settings) => void }) {
  const player = usePlayer();
  const { frame, playground } = useCalmView();
  const [seed, setSeed] = useState(String(playground.script.seed));
  const seedId = useId();
  return (
    <>
      <label className="flex items-start gap-2 text-sm">
        <input
          type="checkbox"
          className="mt-1 accent-accent"
          checked={frame.settings.queued}
          onChange={({ target }) => begin({ ...frame.settings, queued: target.checked })}
        />
        <span>
          The store has a wait queue
          <span className="block text-xs text-muted">
            Without it, all waiters retry at the same moment. Changing this restarts the run.
          </span>
        </span>
      </label>
      <form
        className="flex items-end gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          const { scenario, settings } = playground.script;
          const number = Math.min(999_999, Math.max(0, Math.floor(Number(seed) || 0)));
          player.load(newScript(scenario, { seed: number, settings }));
        }}
      >
        <label htmlFor={seedId} className="grid gap-1 text-sm">
          Random seed
          <input
            id={seedId}
            inputMode="numeric"
            className="h-8 w-28 rounded-md border border-line-strong/60 bg-surface px-2 text-sm tabular"
            value={seed}
            onChange={({ target }) => setSeed(target.value)}
          />
        </label>
        <Button small className="h-8!" type="submit">
          Apply
        </Button>
      </form>
    </>
  );
}

function text(value: number, unit: "ms" | "%"): string {
  return unit === "%" ? `${value} %` : durationText(value);
}

function Slider({
  setting,
  value,
  max,
  onChange,
}: {
  readonly setting: NumberSetting;
  readonly value: number;
  readonly max: number;
  readonly onChange: (value: number) => void;
}) {
  const { label, unit, min, step, help } = RANGES[setting];
  const id = useId();
  const [draft, setDraft] = useState<number | null>(null);
  const settling = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(settling.current), []);
  // The setting has taken effect, perhaps adjusted to fit the others.
  useEffect(() => setDraft(null), [value]);
  const move = (next: number) => {
    setDraft(next);
    clearTimeout(settling.current);
    settling.current = setTimeout(() => {
      onChange(next);
      setDraft(null);
    }, SETTLED_MS);
  };
  const shown = draft ?? value;
  return (
    <div className="grid gap-1">
      <div className="flex items-baseline justify-between gap-2 text-sm">
        <label htmlFor={id} className="font-medium">
          {label}
        </label>
        <output htmlFor={id} className="font-mono text-xs tabular">
          {text(shown, unit)}
        </output>
      </div>
      <input
        {...{ id, type: "range", min, max: Math.min(max, RANGES[setting].max), step }}
        aria-describedby={`${id}-help`}
        aria-valuetext={text(shown, unit)}
        className="w-full accent-accent"
        value={shown}
        onChange={({ target }) => move(Number(target.value))}
      />
      <p id={`${id}-help`} className="text-xs text-muted">
        {help}
      </p>
    </div>
  );
}
