import { createContext, useContext, useSyncExternalStore } from "react";
import type { Player, View } from "./player.js";

export const PlayerContext = createContext<Player | null>(null);

export function usePlayer(): Player {
  const player = useContext(PlayerContext);
  if (!player) throw new Error("there is no player around this");
  return player;
}

/** What is shown, drawn anew with every picture: for the stage and the timeline. */
export function useView(): View {
  const player = usePlayer();
  return useSyncExternalStore(player.subscribe, player.view);
}

/** What is shown, a few times a second: for all that is read. */
export function useCalmView(): View {
  const player = usePlayer();
  return useSyncExternalStore(player.subscribeCalmly, player.calmView);
}
