// Streams and events: in which order the work of a device happens. Each thread has a current stream per device.
#pragma once
#include "../core/tensor.h"
#include "device.h"

namespace flambeau::cuda {

Stream current_stream(int device);
void set_current_stream(int device, Stream stream);
// One of 32 per device and priority, in turn; a lower number is served first.
Stream pooled_stream(int device, int priority);

bool capturing(Stream stream);  // what is launched there is recorded instead of run
bool any_capture();             // in this process
uint64_t capture_of(Stream stream);  // the number of the recording that it takes part in; 0: in none
uint64_t begin_capture(Stream stream, int mode);  // its number
Graph end_capture(Stream stream);

// Sleeps without the interpreter lock until everything launched there is over; `used` are held meanwhile.
void synchronize_stream(int device, Stream stream, const char* what, std::initializer_list<const Tensor*> used = {});
void synchronize_device(int device);
// What happens where an operator lets the CPU wait for a device: 0 nothing, 1 a warning, 2 an error, before it waits.
int& wait_mode();
void about_to_wait(const char* what);

Event new_event(int device, bool timing);   // timing: cuEventElapsedTime can be asked
void drop_event(int device, Event event, bool timing);  // kept for the next one
// external: a recorded graph does it at each launch, instead of taking it as the order of its own work.
void record(Event event, Stream stream, int device, bool external = false);
void stream_waits(Stream stream, Event event, int device, bool external = false);
bool done(Event event);
void synchronize_event(Event event);

}  // namespace flambeau::cuda
