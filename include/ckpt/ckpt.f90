! SPDX-License-Identifier: Apache-2.0
!
! The C API of ckpt/ckpt.h for Fortran 2008. A module file fits one compiler, so this source is installed: compile it
! with the program. With CMake, link with ckpt::fortran (ckpt(3)).
!
! Functions return what the C functions return: 0 or more, or a negative error, which ckpt_last_error() describes.
module ckpt
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: ckpt_checkpoint, ckpt_on_checkpoint, ckpt_remove_callbacks, ckpt_exclude, ckpt_include
  public :: ckpt_suspend, ckpt_suspend_memory, ckpt_resume, ckpt_state, ckpt_last_error, ckpt_version

  ! How a checkpoint ended.
  integer, parameter, public :: ckpt_continued = 0, ckpt_restored = 1, ckpt_failed = 2

  integer, parameter, public :: ckpt_err_no_session = -1, ckpt_err_busy = -2, ckpt_err_invalid = -3, &
    ckpt_err_failed = -4, ckpt_err_lost = -5, ckpt_err_unknown = -6, ckpt_err_in_callback = -7, ckpt_err_system = -8

  ! Flags of ckpt_checkpoint(), which may be added.
  integer, parameter, public :: ckpt_stop = 1, ckpt_overwrite = 2

  type, bind(c), public :: ckpt_result
    integer(c_int) :: outcome = 0
    real(c_double) :: seconds = 0
    integer(c_int64_t) :: device_bytes = 0
    integer(c_int64_t) :: reserved(5) = 0
  end type

  abstract interface
    ! 0 agrees to the checkpoint; any other value refuses it.
    integer(c_int) function ckpt_before(user, reason) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: user
      type(c_ptr) :: reason
    end function
    subroutine ckpt_after(user, outcome) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: user
      integer(c_int), value :: outcome
    end subroutine
  end interface
  public :: ckpt_before, ckpt_after

  interface
    integer(c_int) function c_checkpoint(image, flags, result) bind(c, name='ckpt_checkpoint')
      import :: c_char, c_int, c_ptr
      character(kind=c_char), intent(in) :: image(*)
      integer(c_int), value :: flags
      type(c_ptr), value :: result
    end function
    integer(c_int) function c_on_checkpoint(before, after, user) bind(c, name='ckpt_on_checkpoint')
      import :: c_funptr, c_int, c_ptr
      type(c_funptr), value :: before, after
      type(c_ptr), value :: user
    end function
    ! Takes back the registration that has this number.
    integer(c_int) function ckpt_remove_callbacks(id) bind(c)
      import :: c_int
      integer(c_int), value :: id
    end function
    ! address: c_loc(array(1)); bytes: size(array) * storage_size(array) / 8. The contents are undefined after any
    ! checkpoint. bytes = 0: a handle of a device API.
    integer(c_int) function ckpt_exclude(address, bytes) bind(c)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: address
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function ckpt_include(address, bytes) bind(c)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: address
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function c_suspend(folder) bind(c, name='ckpt_suspend')
      import :: c_int, c_ptr
      type(c_ptr), value :: folder
    end function
    integer(c_int) function c_suspend_memory(folder) bind(c, name='ckpt_suspend_memory')
      import :: c_int, c_ptr
      type(c_ptr), value :: folder
    end function
    integer(c_int) function ckpt_resume() bind(c)
      import :: c_int
    end function
    integer(c_int) function ckpt_state() bind(c)
      import :: c_int
    end function
    type(c_ptr) function c_last_error() bind(c, name='ckpt_last_error')
      import :: c_ptr
    end function
    type(c_ptr) function c_version() bind(c, name='ckpt_version')
      import :: c_ptr
    end function
    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! Writes an image into the folder `image`, whose trailing blanks do not count.
  integer function ckpt_checkpoint(image, flags, result)
    character(*), intent(in) :: image
    integer, intent(in), optional :: flags
    type(ckpt_result), intent(out), optional, target :: result
    type(c_ptr) :: where
    integer(c_int) :: all_flags

    where = c_null_ptr
    if (present(result)) where = c_loc(result)
    all_flags = 0
    if (present(flags)) all_flags = int(flags, c_int)
    ckpt_checkpoint = int(c_checkpoint(c_text(image), all_flags, where))
  end function

  integer function ckpt_on_checkpoint(before, after, user)
    procedure(ckpt_before), optional :: before
    procedure(ckpt_after), optional :: after
    type(c_ptr), intent(in), optional :: user
    type(c_funptr) :: first, second
    type(c_ptr) :: data

    first = c_null_funptr
    second = c_null_funptr
    data = c_null_ptr
    if (present(before)) first = c_funloc(before)
    if (present(after)) second = c_funloc(after)
    if (present(user)) data = user
    ckpt_on_checkpoint = int(c_on_checkpoint(first, second, data))
  end function

  ! Without a folder, the contents of device memory go into host memory.
  integer function ckpt_suspend(folder)
    character(*), intent(in), optional :: folder
    character(kind=c_char), allocatable, target :: text(:)

    if (present(folder)) then
      allocate (text, source=c_text(folder))
      ckpt_suspend = int(c_suspend(c_loc(text)))
    else
      ckpt_suspend = int(c_suspend(c_null_ptr))
    end if
  end function

  integer function ckpt_suspend_memory(folder)
    character(*), intent(in), optional :: folder
    character(kind=c_char), allocatable, target :: text(:)

    if (present(folder)) then
      allocate (text, source=c_text(folder))
      ckpt_suspend_memory = int(c_suspend_memory(c_loc(text)))
    else
      ckpt_suspend_memory = int(c_suspend_memory(c_null_ptr))
    end if
  end function

  ! What this thread's last failed call failed at.
  function ckpt_last_error() result(text)
    character(:), allocatable :: text
    text = f_text(c_last_error())
  end function

  function ckpt_version() result(text)
    character(:), allocatable :: text
    text = f_text(c_version())
  end function

  function c_text(text) result(copy)
    character(*), intent(in) :: text
    character(kind=c_char) :: copy(len_trim(text) + 1)
    integer :: i
    do i = 1, len_trim(text)
      copy(i) = text(i:i)
    end do
    copy(len_trim(text) + 1) = c_null_char
  end function

  function f_text(address) result(text)
    type(c_ptr), intent(in) :: address
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    call c_f_pointer(address, letters, [c_strlen(address)])
    allocate(character(size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

end module
