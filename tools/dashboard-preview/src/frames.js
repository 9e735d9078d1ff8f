// Answers of Prometheus' HTTP API as Grafana's data frames, the way its data source makes them.

import { applyNullInsertThreshold, FieldType, toDataFrame } from '@grafana/data';

/** Return the frames of a panel: `told` is, for each of its targets, the result list of the API. */
export function framesOf(panel, told, step) {
  return panel.targets.flatMap((target, index) => {
    const series = told[index];
    if (target.format === 'table') {
      return [tableOf(target, series, panel.targets.length)];
    }
    const sorted = target.format === 'heatmap' ? [...series].sort(byEdge) : series;
    return sorted.map((one) => seriesOf(target, one, step));
  });
}

function byEdge(one, other) {
  return edge(one) - edge(other);
}

function edge({ metric }) {
  return metric.le === '+Inf' ? Infinity : Number(metric.le);
}

function nameOf(target, metric) {
  if (target.legendFormat !== '__auto') {
    return target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => metric[label] ?? '');
  }
  const labels = Object.entries(metric).map(([label, value]) => `${label}="${value}"`);
  return labels.length ? `{${labels.join(', ')}}` : target.expr;
}

function seriesOf(target, one, step) {
  const samples = one.values ?? [one.value];
  const frame = toDataFrame({
    refId: target.refId,
    fields: [
      {
        name: 'Time',
        type: FieldType.time,
        config: { interval: step * 1000 },
        values: samples.map(([at]) => at * 1000),
      },
      {
        name: 'Value',
        type: FieldType.number,
        labels: one.metric,
        config: { displayNameFromDS: nameOf(target, one.metric) },
        values: samples.map(([, value]) => finite(Number(value))),
      },
    ],
  });
  // A line must not cross the time in which there was nothing.
  return target.instant ? frame : applyNullInsertThreshold({ frame, refFieldName: 'Time' });
}

function finite(value) {
  return Number.isFinite(value) ? value : null;
}

function tableOf(target, series, among) {
  const labels = [...new Set(series.flatMap((one) => Object.keys(one.metric)))];
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: series.map((one) => one.value[0] * 1000) },
      ...labels.map((label) => ({
        name: label,
        type: FieldType.string,
        values: series.map((one) => one.metric[label] ?? ''),
      })),
      {
        name: among > 1 ? `Value #${target.refId}` : 'Value',
        type: FieldType.number,
        values: series.map((one) => finite(Number(one.value[1]))),
      },
    ],
  });
}
