// Kinds that no package of Grafana's draws, drawn simply by us: enough to see whether a panel says
// what it should, not how it looks.

import { formattedValueToString, getFieldDisplayName } from '@grafana/data';

const BELOW = 20;

function ticks(timeRange, left, width, height) {
  const [from, to] = [timeRange.from.valueOf(), timeRange.to.valueOf()];
  return [0.1, 0.3, 0.5, 0.7, 0.9].map((part) => (
    <text key={part} x={left + part * width} y={height - 4} textAnchor="middle" fill="#999">
      {new Date(from + part * (to - from)).toISOString().slice(11, 16)}
    </text>
  ));
}

/** Buckets as rows from the smallest edge up, times as columns; the more in a cell the lighter. */
export function Heatmap({ panel, frames, width, height, timeRange }) {
  const left = 56;
  const times = [...new Set(frames.flatMap((frame) => [...frame.fields[0].values]))].sort();
  const below = new Map();
  const rows = frames.map((frame) => {
    const [at, counts] = frame.fields;
    const row = new Map();
    for (let index = 0; index < frame.length; index += 1) {
      const count = counts.values[index] ?? 0;
      row.set(at.values[index], Math.max(0, count - (below.get(at.values[index]) ?? 0)));
      below.set(at.values[index], count);
    }
    return { edge: getFieldDisplayName(counts, frame), row, display: counts.display };
  });
  const most = Math.max(1e-9, ...rows.flatMap(({ row }) => [...row.values()]));
  const [wide, high] = [(width - left) / times.length, (height - BELOW) / rows.length];
  const [from, to] = [timeRange.from.valueOf(), timeRange.to.valueOf()];
  const x = (at) => left + ((at - from) / (to - from)) * (width - left);
  return (
    <svg className="ours" width={width} height={height} fontSize={11}>
      {rows.map(({ edge, row, display }, level) => {
        const y = height - BELOW - (level + 1) * high;
        const cells = [...row].filter(([, count]) => count > 1e-9);
        return (
          <g key={edge}>
            <text x={left - 6} y={y + high / 2 + 4} textAnchor="end" fill="#999">
              {edge === '+Inf' ? '+Inf' : formattedValueToString(display(Number(edge)))}
            </text>
            {cells.map(([at, count]) => (
              <rect
                key={at}
                x={x(at)}
                y={y + 0.5}
                width={Math.max(1, wide - 0.5)}
                height={high - 1}
                fill={`hsl(28 90% ${18 + 47 * Math.sqrt(count / most)}%)`}
              />
            ))}
          </g>
        );
      })}
      {ticks(timeRange, left, width - left, height)}
    </svg>
  );
}

/** One line for each series, in the colour that its value is mapped to. */
export function States({ frames, width, height, timeRange, panel }) {
  const left = 150;
  const [from, to] = [timeRange.from.valueOf(), timeRange.to.valueOf()];
  const high = Math.min(30, (height - BELOW) / frames.length);
  const each = frames[0].fields[0].config.interval ?? 30_000;
  const wide = Math.max(1, (each / (to - from)) * (width - left) + 0.5);
  const x = (at) => left + ((at - from) / (to - from)) * (width - left);
  return (
    <svg className="ours" width={width} height={height} fontSize={12}>
      {frames.map((frame, line) => {
        const [at, state] = frame.fields;
        const name = getFieldDisplayName(state, frame, frames);
        const cells = [...at.values].map((one, index) => [one, state.values[index]]);
        return (
          <g key={name}>
            <text x={4} y={line * high + high / 2 + 4} fill="#ccc">
              {name.length > 22 ? `${name.slice(0, 21)}…` : name}
            </text>
            {cells
              .filter(([, value]) => value !== null)
              .map(([one, value]) => (
                <rect
                  key={one}
                  x={Math.min(x(one), width - wide)}
                  y={line * high + 2}
                  width={wide}
                  height={high - 4}
                  fill={state.display(value).color}
                  fillOpacity={panel.fieldConfig.defaults.custom.fillOpacity / 100}
                />
              ))}
          </g>
        );
      })}
      {ticks(timeRange, left, width - left, height)}
    </svg>
  );
}

/** Half a circle, filled as far as the value is between the ends. */
export function Dial({ panel, value, width, height }) {
  const { min, max } = panel.fieldConfig.defaults;
  const radius = Math.min(width / 2, height) * 0.72;
  const [cx, cy] = [width / 2, height * 0.86];
  const part = Math.min(1, Math.max(0.005, (value.display.numeric - min) / (max - min)));
  const at = (share) => {
    const angle = Math.PI * (1 - share);
    return `${cx + radius * Math.cos(angle)} ${cy - radius * Math.sin(angle)}`;
  };
  const arc = (share) => `M ${at(0)} A ${radius} ${radius} 0 0 1 ${at(share)}`;
  return (
    <svg className="ours" width={width} height={height}>
      <path d={arc(1)} stroke="#333" strokeWidth={radius / 4} fill="none" />
      <path d={arc(part)} stroke={value.display.color} strokeWidth={radius / 4} fill="none" />
      <text x={cx} y={cy - 4} fontSize={radius / 2.6} textAnchor="middle" fill={value.display.color}>
        {formattedValueToString(value.display)}
      </text>
    </svg>
  );
}
