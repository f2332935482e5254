# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Completion for ckpt, ckpt-run, ckpt-dump, ckpt-restore, ckpt-migrate, ckpt-image, ckpt-fatbin, ckpt-ps, ckpt-history, ckptd,
# ckpt-top, ckpt-sim, ckpt-node-bench, ckpt-schedd, ckpt-idled and ckpt-devd. It is
# installed under each of these names. To try it: . completions/ckpt.bash

# The values of --device: indexes, API:N, API:IMPLEMENTATION and UUIDs of this machine's devices. They
# are listed once for each shell, because loading all drivers takes a moment.
_ckpt_devices() {
  if [[ -z ${_ckpt_device_words+set} ]]; then
    _ckpt_device_words=$("$(_ckpt_sibling ckpt-run)" --list-devices --json 2>/dev/null | awk -F '"' '
      /^ *"index":/ { n = $3; gsub(/[^0-9]/, "", n); print n }
      /^ *"api":/ { api = $4; print api ":" count[api]++ }
      /^ *"platform":/ { p = tolower($4); sub(/ .*/, "", p); print api ":" p }
      /^ *"uuid":/ { print $4 }' | sort -u)
  fi
  printf '%s\n' "$_ckpt_device_words"
}

# The tool $1, from the folder of the command that is being completed if it is there.
_ckpt_sibling() {
  if [[ $_ckpt_command == */* && -x ${_ckpt_command%/*}/$1 ]]; then
    printf '%s\n' "${_ckpt_command%/*}/$1"
  else
    printf '%s\n' "$1"
  fi
}

# The PIDs of programs under ckpt-run or ckpt-restore, from the folders of the sessions.
_ckpt_programs() {
  local folder file pid
  for folder in "${CKPT_RUNTIME_DIR:-}" "${XDG_RUNTIME_DIR:-}" /tmp; do
    [[ -n $folder ]] || continue
    for file in "$folder"/ckpt-*/program; do
      [[ -r $file ]] && read -r pid <"$file" && [[ -d /proc/$pid ]] && printf '%s\n' "$pid"
    done
  done | sort -un
}

# Folders. An image ends the word; any other folder may contain images, so the word continues.
_ckpt_images() {
  local folder
  compopt -o filenames 2>/dev/null
  COMPREPLY=()
  while IFS= read -r folder; do
    COMPREPLY+=("$folder")
  done < <(compgen -d -- "$cur")
  if (( ${#COMPREPLY[@]} != 1 )) || [[ ! -e ${COMPREPLY[0]/#\~/$HOME}/index.ckpt ]]; then
    compopt -o nospace 2>/dev/null
  else
    compopt +o filenames 2>/dev/null
    COMPREPLY[0]=$(printf '%q' "${COMPREPLY[0]}")
  fi
}

# A list with commas: completes the item after the last comma.
_ckpt_device_list() {
  local before='' word=$cur
  if [[ $cur == *,* ]]; then
    before=${cur%,*},
    word=${cur##*,}
  fi
  COMPREPLY=()
  while IFS= read -r word; do
    COMPREPLY+=("$before$word")
  done < <(compgen -W "$(_ckpt_devices)" -- "$word")
  # Readline splits words at colons, so it needs only the part after the last one.
  if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
    local i upto=${cur%"${cur##*:}"}
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$upto"}; done
  fi
}

_ckpt_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}

_ckpt_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }

# Sets cur, prev and words. Bash splits `ocl:rus` and `--device=2` into three words each.
_ckpt_split() {
  local i word
  words=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == : || $word == = || ${words[*]: -1} == *[:=] ]] && (( ${#words[@]} )); then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
  done
  cur=${COMP_WORDS[COMP_CWORD]}
  if (( ${#words[@]} )) && [[ $cur == : || $cur == = || ${words[*]: -1} == *[:=] ]]; then
    cur=${words[*]: -1}$cur
    unset "words[${#words[@]}-1]"
  fi
  prev=
  if (( ${#words[@]} )); then prev=${words[*]: -1}; fi
  if [[ $cur == --*=* ]]; then
    prev=${cur%%=*}
    cur=${cur#*=}
  fi
}

# The index of the word that is ckpt-run's PROGRAM; nothing if it has not been typed yet.
_ckpt_program_at() {
  local i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --) echo $((i + 1)); return ;;
      --device | --every | --mtbf | --keep | --image-dir | --image | --job | --member | --programs | --on-signal | --priority | --host | --json-report | --fps | --slice | \
        --guest-tuning | --threads | --megabytes | --seconds | --name | --counter | --memory-gb | --cache)
        ((i++))
        while [[ ${COMP_WORDS[i + 1]} == [:=] || ${COMP_WORDS[i]} == [:=] ]] && ((i < COMP_CWORD)); do ((i++)); done
        ;;
      -*) ;;
      *) echo "$i"; return ;;
    esac
  done
}

# The program after the options of ckpt-run or ckpt-node-bench, and its arguments; fails before it.
_ckpt_program() {
  local at
  at=$(_ckpt_program_at)
  [[ -n $at ]] && (( at <= COMP_CWORD )) || return
  if declare -F _command_offset >/dev/null; then _command_offset "$at"; return 0; fi
  cur=${COMP_WORDS[COMP_CWORD]}
  if (( at == COMP_CWORD )); then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -c -- "$cur")
  else
    _ckpt_files
  fi
  return 0
}

_ckpt_run() {
  local cur prev words _ckpt_command=$1
  _ckpt_program && return
  _ckpt_split
  case $prev in
    --device) _ckpt_device_list ;;
    --managed-memory) _ckpt_words 'kept host driver' ;;
    --every) _ckpt_words 'auto 10m 30m 1h' ;;
    --mtbf) _ckpt_words '24h' ;;
    --keep) _ckpt_words '2 3 7' ;;
    --priority) _ckpt_words '0 1 10' ;;
    --fps) _ckpt_words '30 60 144' ;;
    --slice) _ckpt_words 'auto 64 25% 5ms 20ms' ;;
    --guest-tuning) _ckpt_words 'frame= continuous= kernels= margin= window= percentile= lows= probes= patience=' ;;
    --image | --image-dir | --job | --json-report) _ckpt_files ;;
    --on-signal) _ckpt_words 'TERM TERM,USR1 TERM,USR1,USR2 none' ;;
    *)
      if [[ $cur == -* ]]; then
        _ckpt_words '--device --portable --managed-memory --managed-on-host --device-owner --share-ipc --isolate --audit --managed --unmanaged --priority --guest --fps --slice --guest-tuning --image --job --member --continue --programs --on-signal --every --mtbf --keep --image-dir --with-files --list-devices --host --json --json-report --version --help --'
      else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
      fi
      ;;
  esac
}

_ckpt_dump() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    -o | --output | --parent) _ckpt_images ;;
    --user) mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
    --key-file | --to) _ckpt_files ;;
    --keep) _ckpt_words '2 3 7 24' ;;
    --job) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    --memory) _ckpt_words '128 1024 4096' ;;
    --prepare) _ckpt_words '0 2048 16384' ;;
    --copy-ahead) _ckpt_words '0 1 3' ;;
    --timeout) _ckpt_words '10 60 300 3600' ;;
    --user-time) _ckpt_words '60 600' ;;
    --suspend) [[ $COMP_LINE == *--suspend=* ]] && _ckpt_words 'full memory' || _ckpt_words "$(_ckpt_programs)" ;;
    *)
      if [[ $cur == -* ]]; then
        _ckpt_words '--output --leave-running --stop-the-world --overwrite --parent --template --tcp-close --with-files --with-files-up-to --keep --key-file --shared-key --memory --prepare --copy-ahead --timeout --check --suspend --to --all --user --user-time --job --json --quiet --verbose --version --help'
      else
        _ckpt_words "$(_ckpt_programs)"
      fi
      ;;
  esac
}

_ckpt_restore() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    --device) _ckpt_device_list ;;
    --every) _ckpt_words 'auto 10m 30m 1h' ;;
    --mtbf) _ckpt_words '24h' ;;
    --keep) _ckpt_words '2 3 7' ;;
    --output | --json-report | --key-file | --image-dir | --truncate-file) _ckpt_files ;;
    --on-signal) _ckpt_words 'TERM TERM,USR1 TERM,USR1,USR2 none' ;;
    --all | --job) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    --resume) _ckpt_words "$(_ckpt_programs)" ;;
    --copy-ahead) _ckpt_words '0 1 3' ;;
    --user-time) _ckpt_words '600 3600' ;;
    --watch) _ckpt_words '2 10 60' ;;
    --step) ;;
    *)
      if [[ $cur == -* ]]; then
        _ckpt_words '--device --portable --strict-limits --ignore-limits --continue-without-devices --on-signal --every --mtbf --keep --image-dir --with-files --detach --output --truncate-files --truncate-file --append-files --ignore-processor --lazy --verify-first --key-file --shared-key --trust-image --as-root --resume --copy-ahead --dry-run --watch --step --json --all --user-time --job --member --checkpoint --wait --json-report --version --help'
      else
        _ckpt_images
      fi
      ;;
  esac
}

_ckpt_start() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    --device) _ckpt_device_list ;;
    -n | --copies) _ckpt_words '2 4 8' ;;
    --listen) _ckpt_words '8080=9001-9004' ;;
    --set | --hostname) ;;
    --output | --key-file) _ckpt_files ;;
    *)
      if [[ $cur == -* ]]; then
        _ckpt_words '--copies --listen --set --hostname --output --device --share-files --detach --json --key-file --shared-key --trust-image --portable --version --help'
      else
        _ckpt_images
      fi
      ;;
  esac
}

_ckpt_migrate() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    --device | --to-device) _ckpt_device_list ;;
    --key-file | --svg) _ckpt_files ;;
    --rounds) _ckpt_words '0 2 4 8' ;;
    --max-downtime) _ckpt_words '0.5 1 5' ;;
    --finish | --take-back) _ckpt_words "$("$(_ckpt_sibling ckpt-migrate)" --list 2>/dev/null | cut -d ' ' -f 1)" ;;
    --rsh | --tool-there | --output | --key-file-there | --link-timeout | --timeout) ;;
    *)
      if [[ $cur == -* ]]; then
        _ckpt_words '--device --to-device --output --rounds --max-downtime --rsh --tool-there --link-timeout --timeout --key-file --key-file-there --shared-key --ignore-processor --with-files --keep --finish --take-back --force --detach --list --receive --json --svg --quiet --verbose --version --help'
      else
        _ckpt_words "$(_ckpt_programs)"
      fi
      ;;
  esac
}

_ckpt_image() {
  local cur prev words _ckpt_command=$1 verb=
  _ckpt_split
  local word
  for word in "${words[@]}"; do
    if [[ $word != -* ]]; then
      verb=$word
      break
    fi
  done
  case $prev in
    --extract) return ;;
    --keep | --last | --hourly | --daily | --weekly | --monthly) _ckpt_words '1 2 3 7'; return ;;
    --within | --unused) _ckpt_words '12h 1d 7d'; return ;;
    --max-size) _ckpt_words '10G 100G 1T'; return ;;
    --by) _ckpt_words 'program folder'; return ;;
    --key-file) _ckpt_files; return ;;
  esac
  case $verb,$cur in
    ,-*) _ckpt_words '--version --help' ;;
    ,*) _ckpt_words 'list show verify diff flatten receive prune rm keep clean' ;;
    list,-*) _ckpt_words '--json --verify --recursive --key-file --shared-key --help' ;;
    show,-*) _ckpt_words '--json --streams --extract --key-file --shared-key --help' ;;
    verify,-*) _ckpt_words '--json --quiet --key-file --shared-key --help' ;;
    diff,-*) _ckpt_words '--json --key-file --shared-key --help' ;;
    flatten,-*) _ckpt_words '--output --overwrite --key-file --shared-key --help' ;;
    receive,-*) _ckpt_words '--overwrite --key-file --shared-key --help' ;;
    prune,-*) _ckpt_words '--keep --json --key-file --shared-key --help' ;;
    rm,-*) _ckpt_words '--dry-run --json --key-file --shared-key --help' ;;
    keep,-*) _ckpt_words '--last --hourly --daily --weekly --monthly --within --unused --max-size --by --recursive --dry-run --json --key-file --shared-key --help' ;;
    clean,-*) _ckpt_words '--json --help' ;;
    *) _ckpt_images ;;
  esac
}

# The entries of the file on the command line, for --extract.
_ckpt_fatbin_entries() {
  local word
  for word in "${COMP_WORDS[@]:1}"; do
    if [[ $word != -* && -f $word ]]; then
      "$_ckpt_command" --entries "$word" 2>/dev/null | awk 'NR > 1 { print $1 }'
      return
    fi
  done
}

_ckpt_fatbin() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    --extract) _ckpt_words "$(_ckpt_fatbin_entries)" ;;
    --extract-ptx) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    --limit) _ckpt_words '256 1024 4096' ;;
    *)
      if [[ $cur == -* ]]; then
        _ckpt_words '--json --all --limit --quiet --entries --extract --extract-ptx --version --help'
      else
        _ckpt_files
      fi
      ;;
  esac
}

_ckpt_ps() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    --user) mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
    *) _ckpt_words '--user --json --version --help' ;;
  esac
}

_ckpt_history() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    --user) mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
    --file | --homes | --prometheus | --chrome-trace | --svg) _ckpt_files ;;
    --last) _ckpt_words '10 100' ;;
    *) _ckpt_words '--job --last --user --file --fit --all-users --homes --prometheus --chrome-trace --svg --json --version --help' ;;
  esac
}

_ckpt_top() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    --socket) _ckpt_files ;;
    --sort) _ckpt_words 'arrival pid user time memory' ;;
    *) _ckpt_words '--socket --interval --sort --once --json --version --help' ;;
  esac
}

_ckpt_sim() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    --swf | --gavel | --pods | --csv | --gpu-nodes | --gantt | --outcome | --sweep | --tasks | --node) _ckpt_files ;;
    --policy) _ckpt_words 'MCT MCTB MCTM MCTBM WMCT' ;;
    --load-of) _ckpt_words 'all fastest slowest mean' ;;
    --storage) _ckpt_words 'shared per-node' ;;
    --charge) _ckpt_words 'printed exact' ;;
    --regions) _ckpt_words 'before-start bounded all' ;;
    --mix) _ckpt_words 'small large equal' ;;
    --intervals) _ckpt_words 'poisson uniform' ;;
    --run-times) _ckpt_words 'uniform log-uniform' ;;
    --arrivals) _ckpt_words 'more printed' ;;
    --task-sets) _ckpt_words '1 2 3 1,2,3' ;;
    *)
      _ckpt_words '--policy --swf --gavel --pods --csv --gpu-nodes --memory-in-bytes --seconds-per-step
        --jobs --seed --load --load-of --sizes --mix --mix-ratio --run-times --arrivals --intervals --max-minutes --min-speedup
        --max-speedup --memory-per-node --classes --cost --compile --wait --storage --charge --regions
        --whole-last-region --free-final-restore --overestimate --waste-weight
        --task-sets --task-count --watts --tasks --node
        --json --outcome --gantt --sweep --version --help'
      ;;
  esac
}

_ckpt_node_bench() {
  local cur prev words _ckpt_command=$1
  _ckpt_program && return
  _ckpt_split
  case $prev in
    --threads | --megabytes | --seconds | --name | --memory-gb) ;;
    --device) _ckpt_device_list ;;
    --counter) _ckpt_words 'perf cachegrind' ;;
    --cache) _ckpt_words '1M 8M 32M' ;;
    *)
      if [[ $cur == -* ]]; then
        _ckpt_words '--threads --megabytes --seconds --name --device --counter --memory-gb --cache --csv --version --help --'
      else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
      fi
      ;;
  esac
}

_ckpt_schedd() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    --history | --share | --state) _ckpt_files ;;
    --policy) _ckpt_words 'MCT MCTB MCTM MCTBM WMCT' ;;
    *)
      _ckpt_words '--classes --policy --interval --grace --settle --requeue-delay --history --storage --state
        --megabytes --share --waste-weight --once --dry-run --times --release --version --help'
      ;;
  esac
}

_ckpt_idled() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    --config | --nvml | --manager | --samples | --record | --replay) _ckpt_files ;;
    --folder) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    --guests) mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
    --device-memory) _ckpt_words 'auto nvml ckptd none' ;;
    *)
      _ckpt_words '--config --cpu --device-bytes --quiet --input --battery --celsius --hours --guests
        --guests-cgroup --device-memory --nvml --manager --interval --samples --record --slurm
        --partition --folder --off --on --status --replay --json --withdraw --version --help'
      ;;
  esac
}

_ckpt_devd() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    --config | --socket | --munge-socket) _ckpt_files ;;
    --certificates | --ca | --make-ca) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    --allow | --account | --make-user) mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
    *)
      _ckpt_words '--config --socket --listen --certificates --munge --munge-socket --allow --account
        --connections --all-connections --memory --ca --make-ca --make-node --make-user --days --version --help'
      ;;
  esac
}

_ckptd() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    --config | --socket | --profiles | --journal | --node) _ckpt_files ;;
    --nvml)
      _ckpt_files
      [[ none == "$cur"* ]] && COMPREPLY+=(none)
      ;;
    --disk-folder) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    --users) _ckpt_words 'own all' ;;
    --victim) _ckpt_words 'requester cheapest' ;;
    --placement) _ckpt_words 'demand first-fit interference' ;;
    --opencl-devices) _ckpt_words 'gpus all none' ;;
    *)
      _ckpt_words '--config --socket --users --reconnect-timeout --startup-delay
        --programs-per-gpu --contextless-per-gpu --context-memory --gpu-memory --credit-memory
        --program-memory --host-memory --disk-folder --disk-memory
        --victim --placement --node --progress-interval --pairing-limit --starvation-limit --min-residency
        --eviction-timeout --rebalance-after --time-slice
        --metrics --profiles --journal --nvml --opencl-devices --version --help'
      ;;
  esac
}

_ckpt_helper() {
  local cur prev words _ckpt_command=$1
  _ckpt_split
  case $prev in
    --socket | --criu) _ckpt_files ;;
    --folder) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    *) _ckpt_words '--socket --criu --folder --per-user --total --lazy --version --help' ;;
  esac
}

# `ckpt dump …` is completed as `ckpt-dump …`.
_ckpt() {
  if (( COMP_CWORD == 1 )); then
    local cur=${COMP_WORDS[1]}
    _ckpt_words 'run dump restore start migrate image ps history top sim node-bench fatbin help --version --help'
    return
  fi
  local name=${COMP_WORDS[1]}
  local tool=${COMP_WORDS[0]}-$name function=_ckpt_${name//-/_}
  if [[ $name == help ]]; then
    COMP_WORDS=("${COMP_WORDS[0]}" "${COMP_WORDS[@]:2}") COMP_CWORD=$((COMP_CWORD - 1))
    (( COMP_CWORD == 1 )) && _ckpt
  elif declare -F "$function" >/dev/null; then
    COMP_LINE=${COMP_LINE/"${COMP_WORDS[0]} $name"/$tool}
    COMP_WORDS=("$tool" "${COMP_WORDS[@]:2}") COMP_CWORD=$((COMP_CWORD - 1))
    "$function" "$tool" "$2" "$3"
  fi
}

complete -F _ckpt ckpt
complete -F _ckpt_run ckpt-run
complete -F _ckpt_helper ckpt-helper
complete -F _ckpt_dump ckpt-dump
complete -F _ckpt_restore ckpt-restore
complete -F _ckpt_start ckpt-start
complete -F _ckpt_migrate ckpt-migrate
complete -F _ckpt_image ckpt-image
complete -F _ckpt_fatbin ckpt-fatbin
complete -F _ckptd ckptd
complete -F _ckpt_ps ckpt-ps
complete -F _ckpt_history ckpt-history
complete -F _ckpt_top ckpt-top
complete -F _ckpt_sim ckpt-sim
complete -F _ckpt_node_bench ckpt-node-bench
complete -F _ckpt_schedd ckpt-schedd
complete -F _ckpt_idled ckpt-idled
complete -F _ckpt_devd ckpt-devd
